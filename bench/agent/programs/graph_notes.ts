import { create_entities, create_relations, search_nodes } from '/workspace/servers/memory/index.js';

interface Person { name: string; role: string }
const people: Person[] = [{ name: 'Grace', role: 'admiral' }, { name: 'Emmy', role: 'mathematician' }];
await create_entities({
  entities: people.map(({ name, role }) => ({ name, entityType: 'person', observations: [`is a ${role}`] })),
});
await create_relations({ relations: [{ from: 'Grace', to: 'Emmy', relationType: 'knows' }] });
const { entities } = await search_nodes({ query: 'grace' });
console.log(entities[0]?.observations?.join(', ') ?? 'nobody');
