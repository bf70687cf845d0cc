import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
const paths = ['/workspace/notes.txt', '/workspace/data.csv'];
const file = await read_text_file({ path: paths });
console.log(file.content);
