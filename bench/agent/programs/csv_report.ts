import { read_text_file, write_file } from '/workspace/servers/filesystem/index.js';

type Row = Record<string, string>;
function parse(text: string): Row[] {
  const [head, ...lines] = text.trim().split(/\r?\n/);
  const names = head.split(',');
  return lines.map((line) => Object.fromEntries(line.split(',').map((cell, i) => [names[i], cell.replace(/^["']|["']$/g, '')])));
}
const { content } = await read_text_file({ path: '/workspace/data.csv' });
const rows = parse(content);
const sum = rows.reduce((total, row) => total + parseFloat(row.amount), 0);
await write_file({ path: '/workspace/report.md', content: `# Report\n\n${rows.length} rows, {sum} = ${sum.toFixed(2)}\n` });
console.log(sum.toFixed(2));
