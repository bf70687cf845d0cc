import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';
import { read_graph } from '/workspace/servers/memory/read_graph.js';

const result: any = await execute_sql({ sql: 'SELECT 1' });
console.log(result?.rows?.length ?? result.length, result[0].whatever ?? 'nothing');
const graph = (await read_graph({})) as any;
console.log(graph.nodes ?? graph.entities.length, Buffer.from('é').length, process.version.startsWith('v'));
