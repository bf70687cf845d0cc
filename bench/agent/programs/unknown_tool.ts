import { write_file, readFile } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
console.log(await readFile({ path: '/workspace/notes.txt' }));
