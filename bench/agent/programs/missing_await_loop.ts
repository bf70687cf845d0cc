import { execute_sql } from '/workspace/servers/postgres/index.js';
await execute_sql({ sql: 'DELETE FROM orders' });
const rows = execute_sql({ sql: 'SELECT * FROM customers' });
for (const row of rows) console.log(row.name);
