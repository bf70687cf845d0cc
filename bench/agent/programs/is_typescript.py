import { write_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
console.log('done');
