import { execute_sql } from '/workspace/servers/postgres/index.js';

const rows = await execute_sql({
  sql: `SELECT c.id, c.name, count(o.id) AS orders
        FROM customers c LEFT JOIN orders o ON o.customer_id = c.id
        WHERE c.country <> 'US' GROUP BY c.id ORDER BY 3 DESC`,
});
console.table(rows);
const total = rows.reduce((sum, row) => sum + Number(row.orders), 0);
console.log(`${rows.length} customers, ${total} orders`);
