import { read_text_file, search_files } from '/workspace/servers/filesystem/index.js';

const limit: number | undefined = undefined;
const options = { path: '/workspace/notes.txt' };
const file = await read_text_file({ ...options, head: limit });
if ((file as { error?: string }).error) throw new Error('failed');
const found = await search_files({ path: '/workspace', pattern: '*.{txt,md}', excludePatterns: [] });
console.log(file.content.length, found.content.length >= 0, typeof window === 'undefined');
