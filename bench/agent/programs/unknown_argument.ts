import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
const file = await read_text_file({ filePath: '/workspace/notes.txt' });
console.log(file.content);
