import * as fs from '/workspace/servers/filesystem/index.js';

const paths = ['/workspace/notes.txt', '/workspace/data.csv', '/workspace/missing.txt'];
const results = await Promise.allSettled(paths.map((path) => fs.read_text_file({ path, head: 2 })));
for (const [index, result] of results.entries()) {
  if (result.status === 'fulfilled') console.log(paths[index], result.value.content.split('\n').length);
  else console.log(paths[index], 'failed:', result.reason.message);
}
