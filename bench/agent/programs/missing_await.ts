import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
const file = read_text_file({ path: '/workspace/notes.txt' });
console.log(file.content.length);
