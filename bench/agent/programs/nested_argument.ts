import { create_entities } from '/workspace/servers/memory/index.js';
await create_entities({ entities: [] });
await create_entities({ entities: [{ name: 'x', type: 'person', observations: [] }] });
