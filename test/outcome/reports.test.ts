import test from 'ava';
import {readEvents} from '../../src/store/events.ts';
import {readReports} from '../../src/store/reports.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {hard, type Mailed, mailed, reading, record, returnPath, stateOf, suppressed} from '../helpers/reports.ts';

export const timeline = (store: Store, {messageId}: Mailed) =>
	readEvents(store.reader, messageId, {after: null, limit: 100});

storeTest(
	test,
	'a hard DSN to a return path: bounced, event with detail, suppression, mail let go',
	async (t, store) => {
		const mail = await mailed(store);
		const {to, workspaceId, messageId} = mail;
		const effect = await record(store, reading([hard]), {to: [returnPath(to)]});
		const about = {recipientId: to.id, messageId, workspaceId, via: 'return_path', isNew: true, event: 'bounced'};
		t.deepEqual(effect, {about: [about], kept: null} as never);
		t.is(await stateOf(store, to), 'bounced');
		t.is(await stateOf(store, mail.cc), 'delivered');
		t.deepEqual(await suppressed(store, workspaceId), [`ada@a.test hard_bounce ${messageId}`]);
		const [report] = await readReports(store.reader, messageId, 10);
		const [event] = await timeline(store, mail);
		t.is(event?.type, 'bounced');
		t.deepEqual(event?.detail, {
			...{
				recipient: 'ada@a.test',
				role: 'to',
				type: 'permanent',
				category: 'unknown_user',
				host: 'mx.a.test',
				code: 550,
			},
			...{enhanced: '5.1.1', reason: '550 5.1.1 User unknown', rule: 'code-5.1.1', matched: '5.1.1', action: 'failed'},
			...{report: report?.id, via: 'dsn', found_by: 'return_path'},
		});
		t.like(report, {recipientId: to.id, kind: 'dsn', category: 'unknown_user', rule: 'code-5.1.1', matched: '5.1.1'});
		const [row] = await store.reader('inbound');
		t.like(row, {kept: null, reading: null, fault: null});
		t.is(row.raw.length, 0);
		t.truthy(row.read_at);
	},
);
