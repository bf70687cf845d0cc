import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
const data = JSON.parse(await read_text_file({ path: '/workspace/data.csv' }));
console.log(data);
