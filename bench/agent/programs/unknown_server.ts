import { execute_sql } from '/workspace/servers/postgresql/index.js';
import { write_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
console.log(await execute_sql({ sql: 'SELECT 1' }));
