import { write_file, read_text_file } from '/workspace/servers/filesystem/index.js';
await write_file({ path: '/workspace/begun.txt', content: 'begun' });
try {
  const { content } = await read_text_file({ path: '/workspace/notes.txt' });
  console.log(contents.length);
} catch (error) {
  console.error('Error:', error);
}
