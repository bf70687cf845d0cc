import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
const lines = ['a', 'b';
console.log(lines);
