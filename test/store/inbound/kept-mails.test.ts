import test from 'ava';
import {findKept, listKept} from '../../../src/resources/received/kept-store.ts';
import {storeTest} from '../../helpers/databases.ts';

const raw = (subject: string) => Buffer.from(`Subject: ${subject}\r\n\r\n\0\xff${'x'.repeat(20_000)}`, 'latin1');

storeTest(test, 'lists retained messages, with the beginning of those to the operator only', async (t, store) => {
	for (const [n, kept] of ['unmatched', 'operator', 'unread', null].entries()) {
		await store.database('inbound').insert({
			...{id: String(n).repeat(64), digest: String(n).repeat(64), source: 'smtp', rcpt_to: '["abuse@x.test"]'},
			...{raw: raw(String(n)), size: 20_000, received_at: `2026-11-21T10:00:0${n}.000Z`, read_at: 'now', kept},
		});
	}
	const listed = await listKept(store.reader, 10);
	t.deepEqual(
		listed.map(({kept, head}) => [kept, head && Buffer.from(head)]),
		[
			['unread', null],
			['operator', raw('1').subarray(0, 16_384)],
			['unmatched', null],
		],
	);
	t.deepEqual(await findKept(store.reader, '1111111'), [listed[1]]);
});
