import { z } from 'zod';
import { format } from 'date-fns';
import { groupBy } from 'lodash-es';
import { execute_sql } from '/workspace/servers/postgres/index.js';

const Row = z.object({ id: z.number(), name: z.string(), country: z.string() });
const rows = z.array(Row).parse(await execute_sql({ sql: 'SELECT * FROM customers' }));
console.log(Object.keys(groupBy(rows, 'country')).length, format(new Date(2025, 0, 6), 'yyyy-MM-dd'));
