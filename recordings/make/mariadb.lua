-- A load like TPC-C's for sysbench: orders, payments, queries, deliveries and stock levels in their
-- usual proportions, on one warehouse of ten districts, scaled down. Not the benchmark itself.

local DISTRICTS, CUSTOMERS, ITEMS, ORDERS = 10, 600, 20000, 600

local function text(bytes)
    return sysbench.rand.string(string.rep("@", bytes))
end

local function number(last)
    return sysbench.rand.uniform(1, last)
end

-- The standard's uneven choice.
local function uneven(a, last)
    return bit.bor(sysbench.rand.uniform(0, a), number(last)) % last + 1
end

local TABLES = {
    "warehouse(w INT PRIMARY KEY, name CHAR(10), paid DECIMAL(12,2))",
    "district(d INT PRIMARY KEY, name CHAR(10), paid DECIMAL(12,2), next_order INT)",
    "customer(d INT, c INT, name VARCHAR(16), balance DECIMAL(12,2), payments INT, data VARCHAR(500), " ..
        "PRIMARY KEY(d, c), KEY(d, name))",
    "item(i INT PRIMARY KEY, name VARCHAR(24), price DECIMAL(5,2), data VARCHAR(50))",
    "stock(i INT PRIMARY KEY, quantity INT, ytd INT, orders INT, data VARCHAR(300))",
    "orders(d INT, o INT, c INT, entered DATETIME, carrier INT, lines_count INT, " ..
        "PRIMARY KEY(d, o), KEY(d, c, o))",
    "new_order(d INT, o INT, PRIMARY KEY(d, o))",
    "order_line(d INT, o INT, n INT, i INT, delivered DATETIME, quantity INT, amount DECIMAL(6,2), " ..
        "info CHAR(24), PRIMARY KEY(d, o, n))",
    "history(id BIGINT AUTO_INCREMENT PRIMARY KEY, d INT, c INT, paid DECIMAL(6,2), data VARCHAR(24))",
}

function prepare()
    local con = sysbench.sql.driver():connect()
    for _, columns in ipairs(TABLES) do
        con:query("CREATE TABLE " .. columns .. " ENGINE=InnoDB")
    end
    con:query("INSERT INTO warehouse VALUES(1, 'one', 0)")
    con:bulk_insert_init("INSERT INTO item VALUES")
    for i = 1, ITEMS do
        con:bulk_insert_next(string.format("(%d, '%s', %d.5, '%s')", i, text(18), number(99), text(40)))
    end
    con:bulk_insert_done()
    con:bulk_insert_init("INSERT INTO stock VALUES")
    for i = 1, ITEMS do
        con:bulk_insert_next(string.format("(%d, %d, 0, 0, '%s')", i, number(100), text(260)))
    end
    con:bulk_insert_done()
    for d = 1, DISTRICTS do
        con:query(string.format("INSERT INTO district VALUES(%d, '%s', 0, %d)", d, text(8), ORDERS + 1))
        con:bulk_insert_init("INSERT INTO customer VALUES")
        for c = 1, CUSTOMERS do
            con:bulk_insert_next(string.format("(%d, %d, 'NAME%d', 0, 0, '%s')", d, c, c % 100, text(400)))
        end
        con:bulk_insert_done()
        con:bulk_insert_init("INSERT INTO orders VALUES")
        for o = 1, ORDERS do
            con:bulk_insert_next(string.format("(%d, %d, %d, NOW(), %d, 10)", d, o, o, number(10)))
        end
        con:bulk_insert_done()
        con:bulk_insert_init("INSERT INTO order_line VALUES")
        for o = 1, ORDERS do
            for n = 1, 10 do
                con:bulk_insert_next(string.format(
                    "(%d, %d, %d, %d, NOW(), 5, 0, '%s')", d, o, n, number(ITEMS), text(24)))
            end
        end
        con:bulk_insert_done()
    end
end

function thread_init()
    con = sysbench.sql.driver():connect()
end

local function ask(...)
    return con:query(string.format(...))
end

local function new_order()
    local d, c = number(DISTRICTS), uneven(255, CUSTOMERS)
    local row = ask("SELECT next_order FROM district WHERE d = %d FOR UPDATE", d):fetch_row()
    local o, count = tonumber(row[1]), sysbench.rand.uniform(5, 15)
    ask("UPDATE district SET next_order = next_order + 1 WHERE d = %d", d)
    ask("INSERT INTO orders VALUES(%d, %d, %d, NOW(), NULL, %d)", d, o, c, count)
    ask("INSERT INTO new_order VALUES(%d, %d)", d, o)
    for n = 1, count do
        local i = uneven(4095, ITEMS)
        ask("SELECT price, name, data FROM item WHERE i = %d", i)
        ask("SELECT quantity, data FROM stock WHERE i = %d FOR UPDATE", i)
        ask("UPDATE stock SET quantity = IF(quantity > 14, quantity - 5, quantity + 86), ytd = ytd + 5, " ..
            "orders = orders + 1 WHERE i = %d", i)
        ask("INSERT INTO order_line VALUES(%d, %d, %d, %d, NULL, 5, %d.5, '%s')",
            d, o, n, i, number(99), text(24))
    end
end

local function payment()
    local d, c, paid = number(DISTRICTS), uneven(255, CUSTOMERS), number(5000)
    ask("UPDATE warehouse SET paid = paid + %d WHERE w = 1", paid)
    ask("UPDATE district SET paid = paid + %d WHERE d = %d", paid, d)
    if number(100) <= 60 then
        ask("SELECT c, balance FROM customer WHERE d = %d AND name = 'NAME%d' ORDER BY c", d, c % 100)
    end
    ask("UPDATE customer SET balance = balance - %d, payments = payments + 1 WHERE d = %d AND c = %d",
        paid, d, c)
    ask("INSERT INTO history(d, c, paid, data) VALUES(%d, %d, %d, '%s')", d, c, paid, text(20))
end

local function order_status()
    local d, c = number(DISTRICTS), uneven(255, CUSTOMERS)
    local row = ask("SELECT o FROM orders WHERE d = %d AND c = %d ORDER BY o DESC LIMIT 1", d, c):fetch_row()
    if row then
        ask("SELECT i, quantity, amount FROM order_line WHERE d = %d AND o = %s", d, row[1])
    end
end

local function delivery()
    for d = 1, DISTRICTS do
        local row = ask("SELECT o FROM new_order WHERE d = %d ORDER BY o LIMIT 1 FOR UPDATE", d):fetch_row()
        if row then
            local o = row[1]
            ask("DELETE FROM new_order WHERE d = %d AND o = %s", d, o)
            ask("UPDATE orders SET carrier = %d WHERE d = %d AND o = %s", number(10), d, o)
            ask("UPDATE order_line SET delivered = NOW() WHERE d = %d AND o = %s", d, o)
            ask("UPDATE customer SET balance = balance + 10 WHERE d = %d AND c = " ..
                "(SELECT c FROM orders WHERE d = %d AND o = %s)", d, d, o)
        end
    end
end

local function stock_level()
    local d = number(DISTRICTS)
    local next = tonumber(ask("SELECT next_order FROM district WHERE d = %d", d):fetch_row()[1])
    ask("SELECT COUNT(DISTINCT s.i) FROM order_line l JOIN stock s ON s.i = l.i WHERE l.d = %d " ..
        "AND l.o >= %d AND s.quantity < 15", d, next - 20)
end

function event()
    local deed = number(100)
    con:query("BEGIN")
    if deed <= 45 then
        new_order()
    elseif deed <= 88 then
        payment()
    elseif deed <= 92 then
        order_status()
    elseif deed <= 96 then
        delivery()
    else
        stock_level()
    end
    con:query("COMMIT")
end
