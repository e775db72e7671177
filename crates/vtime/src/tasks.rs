//! The tasks of a simulation, and the queue of those that were woken.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use crate::WorldId;

/// A task that was woken: its place, and the number that tells it from others that had that place.
#[derive(Clone, Copy)]
pub(crate) struct Woken {
    pub number: u64,
    place: u32,
}

/// What was woken since it was last asked. Wakers are `Send`, so it is behind a mutex, which no other thread
/// ever takes.
#[derive(Clone, Default)]
pub(crate) struct Queue(Arc<Mutex<VecDeque<Woken>>>);

impl Queue {
    pub fn push(&self, woken: Woken) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(woken);
    }

    /// Moves all of it behind what `turn` holds.
    pub fn drain_into(&self, turn: &mut VecDeque<Woken>) {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.is_empty() {
            std::mem::swap(turn, &mut woken);
        } else {
            turn.append(&mut woken);
        }
    }
}

/// What wakes a task.
pub(crate) struct Handle {
    woken: Woken,
    queued: AtomicBool,
    queue: Queue,
}

impl Handle {
    pub fn new(number: u64, place: u32, queue: &Queue) -> Arc<Self> {
        let woken = Woken { number, place };
        Arc::new(Handle { woken, queued: AtomicBool::new(false), queue: queue.clone() })
    }

    fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    /// It is about to be polled: whoever wakes it from now on queues it anew.
    pub fn unqueue(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.queue.push(self.woken);
        }
    }
}

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A place for a task.
struct Place {
    /// Whose task lives here.
    world: Option<WorldId>,
    /// Absent while it is polled.
    future: Option<Task>,
    handle: Arc<Handle>,
    /// Absent while it is polled.
    waker: Option<Waker>,
}

/// All tasks. Places are used again, and so are handles that nobody else holds: many tasks are short.
#[derive(Default)]
pub(crate) struct Tasks {
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// Worlds that stand still, and those of their tasks that were to run since.
    held: Vec<(WorldId, Vec<Woken>)>,
}

impl Tasks {
    /// Adds a task, and queues it.
    pub fn add(&mut self, number: u64, world: WorldId, future: Task, queue: &Queue) {
        let index = self.vacant.pop().unwrap_or_else(|| {
            let index = self.places.len();
            let index = u32::try_from(index).expect("fewer tasks than memory has room for");
            let handle = Handle::new(number, index, queue);
            self.places.push(Place { world: None, future: None, handle, waker: None });
            index
        });
        let place = &mut self.places[index as usize];
        // A late waker of the task before must not wake this one, and if that one is still queued,
        // it is not this one that is.
        place.waker = None;
        match Arc::get_mut(&mut place.handle).filter(|handle| !handle.is_queued()) {
            Some(handle) => handle.woken.number = number,
            None => place.handle = Handle::new(number, index, queue),
        }
        (place.world, place.future) = (Some(world), Some(future));
        place.waker = Some(Waker::from(place.handle.clone()));
        place.handle.wake_by_ref();
    }

    /// From now on tasks of a world do not run.
    pub fn hold(&mut self, world: WorldId) {
        if !self.held.iter().any(|(held, _)| *held == world) {
            self.held.push((world, Vec::new()));
        }
    }

    /// They do again. Those that were to run since are handed out in the order of their turns.
    #[must_use]
    pub fn release(&mut self, world: WorldId) -> Vec<Woken> {
        let index = self.held.iter().position(|(held, _)| *held == world);
        index.map(|index| self.held.remove(index).1).unwrap_or_default()
    }

    /// Whether a task whose turn has come must wait until its world is released.
    pub fn must_wait(&mut self, woken: Woken) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let world = self.place(woken).and_then(|place| place.world);
        let held = self.held.iter_mut().find(|(held, _)| Some(*held) == world);
        held.map(|(_, waiting)| waiting.push(woken)).is_some()
    }

    /// Takes a task out to poll it; `None` if it ended or was killed meanwhile.
    pub fn take(&mut self, woken: Woken) -> Option<(Task, Waker)> {
        let place = self.place(woken)?;
        let future = place.future.take()?;
        place.handle.unqueue();
        // Taken along, not cloned: that would be two atomic steps for each poll.
        Some((future, place.waker.take()?))
    }

    /// Puts a task back that was polled and is not done. Returns it if it was killed meanwhile.
    #[must_use]
    pub fn put_back(&mut self, woken: Woken, future: Task, waker: Waker) -> Option<Task> {
        let Some(place) = self.place(woken) else { return Some(future) };
        (place.future, place.waker) = (Some(future), Some(waker));
        None
    }

    /// A task that was taken is done.
    pub fn end(&mut self, woken: Woken) {
        if let Some(place) = self.place(woken) {
            place.world = None;
            self.vacant.push(woken.place);
        }
    }

    /// Ends all tasks of a world, and hands them out in the order in which they were added.
    #[must_use]
    pub fn end_world(&mut self, world: WorldId) -> Vec<Task> {
        let mut doomed = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            if place.world == Some(world) {
                place.world = None;
                doomed.extend(place.future.take().map(|task| (place.handle.woken.number, task)));
                self.vacant.push(index as u32);
            }
        }
        doomed.sort_by_key(|(number, _)| *number);
        doomed.into_iter().map(|(_, task)| task).collect()
    }

    /// Where a task lives that neither ended nor was killed.
    fn place(&mut self, woken: Woken) -> Option<&mut Place> {
        let place = self.places.get_mut(woken.place as usize)?;
        (place.world.is_some() && place.handle.woken.number == woken.number).then_some(place)
    }
}
