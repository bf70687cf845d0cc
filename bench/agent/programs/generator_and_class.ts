import { execute_sql } from '/workspace/servers/postgres/index.js';

class Table<T extends { id: number }> {
  constructor(private readonly name: string, private readonly size = 2) {}
  async *pages(): AsyncGenerator<T[]> {
    const rows = (await execute_sql({ sql: `SELECT * FROM ${this.name}` })) as T[];
    for (let at = 0; at < rows.length; at += this.size) yield rows.slice(at, at + this.size);
  }
}
enum Mode { Short = 'short', Long = 'long' }
const mode: Mode = Mode.Short;
for await (const page of new Table<{ id: number; name: string }>('customers').pages()) console.log(mode, page.map((row) => row.id));
