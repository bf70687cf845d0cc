import { create_entities, read_graph } from '/workspace/servers/memory/index.js';
await create_entities({ entities: [{ name: 'x', entityType: 't', observations: [] }] });
const graph = await read_graph();
for (const entity of graph.entities) console.log(entity.type.toUpperCase());
