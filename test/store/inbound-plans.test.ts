import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {precedence} from '../../src/mail/report.ts';
import {listUnread, markRead} from '../../src/resources/received/inbound-store.ts';
import {trimKept} from '../../src/resources/received/kept-store.ts';
import {storeTest} from '../helpers/databases.ts';
import {plansDuring} from '../helpers/plans.ts';

const at = storeTime(Date.now());
const mail = {...{digest: 'x', source: 'smtp', node: 'req_a', rcpt_to: '[]', raw: Buffer.alloc(1)}, size: 1};

storeTest(
	test,
	'reads unprocessed inbound messages in order of the index, and each one by its key',
	async (t, store, engine) => {
		await store.database('inbound').insert({...mail, id: 'x', received_at: at});
		const end = {at, kept: null, isDiscarded: false, reading: null, fault: null};
		const plans = await plansDuring(store, engine, async () => {
			await listUnread(store.reader, {
				...{node: 'req_a', othersUntil: at, precedence: precedence.unproven},
				...{perTurn: 4, maxRows: 8, maxBytes: 1e6},
			});
			await store.writer.transaction(trx => markRead(trx, [{...end, id: 'x'}]));
		});
		t.is(plans.length, 4);
		const [turns = '', list = '', ...byKey] = plans;
		t.regex(turns, /inbound_turns/);
		t.regex(list, /inbound_turns/);
		for (const plan of byKey) {
			t.regex(plan, /sqlite_autoindex_inbound_1|inbound_pkey/);
			t.notRegex(plan, /INDEX inbound_unread|using inbound_unread/);
		}
	},
);

storeTest(test, 'finds retained messages beyond the limits in a covering index', async (t, store, engine) => {
	for (const kept of ['unmatched', 'operator']) {
		await store.database('inbound').insert({...mail, id: kept, received_at: at, read_at: at, kept});
	}
	const plans = await plansDuring(store, engine, () =>
		store.writer.transaction(trx => trimKept(trx, {messages: 0, bytes: 0}, 10)),
	);
	const looks = plans.filter(plan => plan.startsWith('select'));
	t.is(looks.length, 5);
	for (const plan of looks) {
		t.regex(plan, engine === 'sqlite' ? /USING COVERING INDEX inbound_kept/ : /inbound_kept/);
	}
});
