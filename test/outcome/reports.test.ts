import test from 'ava';
import type {Reading, Report} from '../../src/mail/report.ts';
import {createReportWrite, type ReadMail} from '../../src/outcome/reports.ts';
import {readReports} from '../../src/store/reports.ts';
import {isErased} from '../../src/store/retention.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, newId} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {
	authFailure,
	complaint,
	delayed,
	hard,
	links,
	type Mailed,
	mailed,
	optOut,
	reading,
	record,
	relayed,
	reportWrite,
	returnPath,
	soft,
	stateOf,
	strangersLinks,
	suppressed,
	taken,
} from '../helpers/reports.ts';

const timeline = (store: Store, {messageId}: Mailed) => readEvents(store.reader, messageId, {after: null, limit: 100});
const types = async (store: Store, mail: Mailed) => (await timeline(store, mail)).map(({type}) => type);
const kept = async (store: Store) => (await store.reader('inbound').orderBy('received_at')).map(row => row.kept);

storeTest(
	test,
	'records a bounce with details and a suppression for a hard DSN, and discards the message',
	async (t, store) => {
		const mail = await mailed(store);
		const {to, workspaceId, messageId} = mail;
		const effect = await record(store, reading([hard]), {to: [returnPath(to)]});
		const about = {recipientId: to.id, messageId, workspaceId, recipient: 'ada@a.test', report: hard} as const;
		const found = {via: 'return_path', action: 'failed', isNew: true, event: 'bounced'} as const;
		t.deepEqual(effect, {about: [{...about, ...found}], kept: null});
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
			...{
				enhanced: '5.1.1',
				reason: '550 5.1.1 User unknown',
				rule: 'code-5.1.1',
				matched: '5.1.1',
				action: 'failed',
			},
			...{report: report?.id, via: 'dsn', found_by: 'return_path'},
		});
		t.like(report, {
			recipientId: to.id,
			kind: 'dsn',
			category: 'unknown_user',
			rule: 'code-5.1.1',
			matched: '5.1.1',
		});
		const [row] = await store.reader('inbound');
		t.like(row, {kept: null, reading: null, fault: null});
		t.is(row.raw.length, 0);
		t.truthy(row.read_at);
	},
);

sqliteTest(test, 'counts hard bounces and complaints in the reputation once per recipient', async (t, store) => {
	const mail = await mailed(store);
	for (const report of [soft, hard, hard, complaint, complaint]) {
		await record(store, reading([report]), {to: [returnPath(mail.cc)]});
	}
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	const [hour] = await store.reader('reputation_hours');
	t.like(hour, {hard: 2, complained: 1});
});

sqliteTest(test, 'records a transient bounce without a suppression for a soft DSN after the 250', async (t, store) => {
	const mail = await mailed(store);
	await record(store, reading([soft]), {to: [returnPath(mail.to)]});
	t.is(await stateOf(store, mail.to), 'bounced');
	t.like((await timeline(store, mail))[0], {type: 'bounced', detail: {type: 'transient', category: 'mailbox_full'}});
	t.deepEqual(await suppressed(store, mail.workspaceId), []);
});

storeTest(test, 'treats a third report of a full mailbox over more than a week as a hard bounce', async (t, store) => {
	const first = await mailed(store);
	const more = await insertMessages(store, first.workspaceId, ['ada@a.test', 'ada@a.test']);
	const days = [0, 4, 8].map(day => new Date(Date.now() + day * 86_400_000).toISOString());
	for (const [index, messageId] of [first.messageId, ...more].entries()) {
		const recipient = await recipientRows(store.reader).where({message_id: messageId, role: 'to'}).first();
		await changeRecipients(store.database, all => all.where({id: recipient.id}), {
			state: 'sent',
			next_attempt_at: null,
		});
		for (let n = 0; n < 2; n++) {
			const cameIn = {receivedAt: days[index] as string};
			await record(store, reading([soft]), {to: [returnPath(recipient)], cameIn});
		}
		t.is((await suppressed(store, first.workspaceId)).length, index === 2 ? 1 : 0, String(index));
	}
	const [, last = ''] = more;
	t.deepEqual(await suppressed(store, first.workspaceId), [`ada@a.test hard_bounce ${last}`]);
	const events = await readEvents(store.reader, last, {after: null, limit: 9});
	t.like(events, {length: 1, 0: {detail: {type: 'permanent', category: 'mailbox_full', escalated: {messages: 3}}}});
});

sqliteTest(test, 'suppresses the address the message was sent to, not the one in the report', async (t, store) => {
	const mail = await mailed(store);
	await record(store, reading([{...hard, recipient: 'victim@other.test'}]), {to: [returnPath(mail.to)]});
	t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test hard_bounce ${mail.messageId}`]);
});

storeTest(
	test,
	'counts the same report once, however often and through whichever channel it arrives',
	async (t, store) => {
		const mail = await mailed(store);
		const {to} = mail;
		const bytes = 'the same mail';
		await record(store, reading([hard]), {to: [returnPath(to)], bytes});
		const again = await record(store, reading([hard]), {to: [returnPath(to)], bytes});
		t.like(again.about[0], {isNew: false, event: null});
		const clues = {refs: [links.ref(to.id, to.address)]};
		const byMailbox = await record(store, reading([hard]), {bytes, clues, cameIn: {source: 'imap'}});
		t.like(byMailbox, {about: [{via: 'ref', isNew: false}], kept: null});
		const other = await record(store, reading([hard]), {to: [returnPath(to)]});
		t.like(other.about[0], {isNew: true, event: null}, 'another mail of the same class: a report, no event');
		t.deepEqual(await types(store, mail), ['bounced']);
		t.is((await readReports(store.reader, mail.messageId, 10)).length, 2);
		t.is((await suppressed(store, mail.workspaceId)).length, 1);
		await record(store, reading([soft]), {to: [returnPath(to)]});
		t.deepEqual(await types(store, mail), ['bounced', 'bounced'], 'another class has its own event');
	},
);

storeTest(test, 'records many reports in one transaction and counts each class once', async (t, store) => {
	const mail = await mailed(store);
	const mails = await Promise.all(
		[hard, hard, soft, complaint, complaint, delayed].map(report =>
			taken(store, reading([report]), {to: [returnPath(mail.to)]}),
		),
	);
	await Promise.all(mails.map(one => store.writer.submit(reportWrite, one)));
	t.deepEqual((await types(store, mail)).toSorted(), ['bounced', 'bounced', 'complained']);
	t.is(await stateOf(store, mail.to), 'complained', 'a complaint wins over a bounce, and both events are kept');
	t.is((await readReports(store.reader, mail.messageId, 10)).length, 6);
});

sqliteTest(test, 'ends a recipient that is still queued, and never attempts it again', async (t, store) => {
	const mail = await mailed(store);
	const waiting = {state: 'sent', next_attempt_at: '2030-01-01T00:00:00.000Z'};
	await changeRecipients(store.database, all => all.where({id: mail.to.id}), waiting);
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	t.like(await recipientRows(store.reader).where({id: mail.to.id}).first(), {
		state: 'bounced',
		next_attempt_at: null,
	});
});

sqliteTest(test, 'does not restore a removed suppression when the same bounce is reported again', async (t, store) => {
	const mail = await mailed(store);
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	await store.database('suppressions').delete();
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	t.deepEqual(await suppressed(store, mail.workspaceId), []);
});

sqliteTest(test, 'leaves an existing suppression unchanged', async (t, store) => {
	const mail = await mailed(store);
	await record(store, reading([complaint], {kind: 'arf'}), {
		to: ['fbl'],
		clues: {returnPaths: [`${returnPath(mail.to)}@x.test`]},
	});
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test complaint ${mail.messageId}`]);
	t.deepEqual(await types(store, mail), ['complained', 'bounced']);
	t.is(await stateOf(store, mail.to), 'complained');
});

storeTest(
	test,
	'check 12: retains reports with a forged or mismatched token without adding an event',
	async (t, store) => {
		const mail = await mailed(store);
		const other = await mailed(store, 'other', 'eve@e.test');
		const forged = [
			strangersLinks.returnPathLocal(mail.to.id, mail.to.address),
			links.returnPathLocal(newId('rcp'), mail.to.address),
			links.returnPathLocal(mail.to.id, other.to.address),
			// Eve's own token with Ada's id in it.
			returnPath(other.to).slice(0, 2) + returnPath(mail.to).slice(2, 28) + returnPath(other.to).slice(28),
		];
		for (const to of forged) {
			t.deepEqual(await record(store, reading([hard]), {to: [to]}), {about: [], kept: 'unmatched'});
		}
		const receivedAt = new Date(Date.now() + 91 * 86_400_000).toISOString();
		const late = await record(store, reading([hard]), {to: [returnPath(mail.to)], cameIn: {receivedAt}});
		t.deepEqual(late, {about: [], kept: 'unmatched'});
		t.deepEqual(await types(store, mail), []);
		t.deepEqual(await suppressed(store, mail.workspaceId), []);
		t.deepEqual(
			await kept(store),
			forged.concat('late').map(() => 'unmatched'),
		);
		const [row] = await store.reader('inbound').orderBy('received_at', 'desc');
		t.deepEqual(JSON.parse(row.reading).tried, [{via: 'return_path', id: mail.to.id, fault: 'late'}]);
		t.true(row.raw.length > 0);
	},
);

storeTest(
	test,
	'check 13: only stores auto-replies and delayed, relayed, auth-failure and not-spam reports',
	async (t, store) => {
		const mail = await mailed(store);
		const to = [returnPath(mail.to)];
		await record(store, reading([], {kind: 'auto_reply'}), {to});
		await record(store, reading([delayed]), {to});
		await record(store, reading([relayed]), {to});
		await record(store, reading([authFailure], {kind: 'arf'}), {to});
		await record(store, reading([{...authFailure, feedbackType: 'not-spam'}], {kind: 'arf'}), {to});
		t.deepEqual(await types(store, mail), []);
		t.is(await stateOf(store, mail.to), 'delivered');
		t.deepEqual(await suppressed(store, mail.workspaceId), []);
		t.deepEqual(
			(await readReports(store.reader, mail.messageId, 10)).map(({kind, detail}) => `${kind} ${detail.action}`),
			['auto_reply none', 'dsn delayed', 'dsn relayed', 'arf none', 'arf none'],
		);
		t.deepEqual(await kept(store), [null, null, null, null, null]);
	},
);

sqliteTest(test, 'check 14: suppresses only the cc address for a bounce of the cc recipient', async (t, store) => {
	const mail = await mailed(store);
	await record(store, reading([{...hard, recipient: 'bob@b.test'}]), {to: [returnPath(mail.cc)]});
	t.deepEqual(await suppressed(store, mail.workspaceId), [`bob@b.test hard_bounce ${mail.messageId}`]);
	t.is(await stateOf(store, mail.to), 'delivered');
	t.is(await stateOf(store, mail.cc), 'bounced');
	t.like((await timeline(store, mail))[0]?.detail, {recipient: 'bob@b.test', role: 'cc'});
	t.deepEqual(await store.reader('usage_days'), [], 'usage counts messages: their `to` copies');
});

sqliteTest(
	test,
	'matches a Message-ID alone to the `to` recipient, unless the report names a cc address',
	async (t, store) => {
		const mail = await mailed(store);
		const clues = {messageIds: [`${links.messageIdLocal(mail.messageId)}@shop.example`]};
		await record(store, reading([{...hard, recipient: 'Bob@B.test'}]), {clues});
		t.is(await stateOf(store, mail.cc), 'bounced');
		t.is(await stateOf(store, mail.to), 'delivered');
		await record(store, reading([{...hard, recipient: 'someone@else.test'}]), {clues});
		t.is(await stateOf(store, mail.to), 'bounced');
		const forged = {messageIds: [`${strangersLinks.messageIdLocal(mail.messageId)}@shop.example`]};
		t.is((await record(store, reading([hard]), {clues: forged})).kept, 'unmatched');
	},
);

storeTest(test, 'counts a complaint once, and only if the message was delivered', async (t, store) => {
	const mail = await mailed(store);
	const arf = reading([complaint], {kind: 'arf'});
	const waiting = {state: 'queued', sent_at: null, next_attempt_at: '2030-01-01T00:00:00.000Z'};
	await changeRecipients(store.database, all => all.where({id: mail.cc.id}), waiting);
	await record(store, arf, {to: [returnPath(mail.cc)]});
	t.is(await stateOf(store, mail.cc), 'queued');
	for (let n = 0; n < 3; n++) {
		await record(store, arf, {to: [returnPath(mail.to)]});
	}
	t.deepEqual(await types(store, mail), ['complained']);
	t.like((await timeline(store, mail))[0]?.detail, {feedback_type: 'abuse', via: 'arf', found_by: 'return_path'});
	t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test complaint ${mail.messageId}`]);
	t.like(await store.reader('usage_days').first(), {status: 'complained', n: 1});
});

sqliteTest(test, 'ends a recipient by provider events that arrive before the handover is stored', async (t, store) => {
	const waiting = {state: 'queued', sent_at: null, next_attempt_at: '2030-01-01T00:00:00.000Z'};
	const arrived: Report = {...relayed, action: 'delivered'};
	for (const [report, state, entries] of [
		[complaint, 'complained', 1],
		[hard, 'bounced', 1],
		[arrived, 'delivered', 0],
	] as const) {
		const mail = await mailed(store);
		await changeRecipients(store.database, all => all.where({id: mail.to.id}), waiting);
		await record(store, reading([report], {kind: 'provider'}), {to: [returnPath(mail.to)]});
		t.like(await recipientRows(store.reader).where({id: mail.to.id}).first(), {state, next_attempt_at: null});
		t.deepEqual(await types(store, mail), [state]);
		t.is((await suppressed(store, mail.workspaceId)).length, entries);
	}
});

sqliteTest(test, 'records a delivery once if it is read after the bounce or complaint', async (t, store) => {
	const arrived: Report = {...relayed, action: 'delivered'};
	for (const [report, state] of [
		[complaint, 'complained'],
		[hard, 'bounced'],
	] as const) {
		const mail = await mailed(store);
		await changeRecipients(store.database, all => all.where({id: mail.to.id}), {state: 'sent'});
		for (const one of [report, arrived, arrived, report]) {
			await record(store, reading([one], {kind: 'provider'}), {to: [returnPath(mail.to)]});
		}
		t.deepEqual(await types(store, mail), [state, 'delivered']);
		t.is(await stateOf(store, mail.to), state);
		const days = await store.reader('usage_days').where({workspace_id: mail.workspaceId}).orderBy('status');
		t.deepEqual(
			days.map(({status, n}) => `${status} ${n}`),
			[state, 'delivered'].toSorted().map(status => `${status} 1`),
		);
	}
});

storeTest(
	test,
	'lets a delivery reported by a provider correct a soft bounce, but never a hard one',
	async (t, store) => {
		const arrived: Report = {...relayed, action: 'delivered'};
		const blocked: Report = {...hard, category: 'block', suppresses: false};
		for (const [reports, state] of [
			[[soft, arrived], 'delivered'],
			[[soft, arrived, soft, {...soft, category: 'block'}], 'bounced'],
			[[arrived, soft], 'bounced'],
			[[arrived, soft, arrived], 'bounced'],
			[[blocked, arrived], 'bounced'],
			[[soft, hard, arrived], 'bounced'],
		] as const) {
			const asOne = await mailed(store);
			const inTurn = await mailed(store);
			for (const mail of [asOne, inTurn]) {
				await changeRecipients(store.database, all => all.where({id: mail.to.id}), {state: 'sent'});
			}
			await Promise.all(
				reports.map(report =>
					record(store, reading([report], {kind: 'provider'}), {to: [returnPath(asOne.to)]}),
				),
			);
			for (const report of reports) {
				await record(store, reading([report], {kind: 'provider'}), {to: [returnPath(inTurn.to)]});
			}
			const name = reports.map(({action, category}) => category ?? action).join(', ');
			t.is(await stateOf(store, inTurn.to), state, name);
			t.is(await stateOf(store, asOne.to), state, `${name}, at once`);
		}
	},
);

storeTest(test, 'unsubscribes on an opt-out report like the link in the message', async (t, store) => {
	for (const kind of ['arf', 'provider'] as const) {
		const mail = await mailed(store);
		await record(store, reading([optOut], {kind}), {to: [returnPath(mail.to)]});
		t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test unsubscribe ${mail.messageId}`]);
		t.like((await timeline(store, mail))[0], {type: 'unsubscribed', detail: {topic: null, via: 'report'}}, kind);
		t.is(await stateOf(store, mail.to), 'delivered');
	}
});

const unsubscribeAddress = ({to}: Mailed) => links.unsubscribeLocal(to.id, to.address);

storeTest(
	test,
	'unsubscribes from the topic of the message, or from everything, by mail to its unsubscribe address',
	async (t, store) => {
		const mail = await mailed(store);
		const topic = {id: newId('usg'), workspace_id: mail.workspaceId, code: 'news', name: 'News', created_at: 'now'};
		await store.database('topics').insert(topic);
		await store.database('messages').update({topic_id: topic.id, topic_code: 'news'});
		const request = reading([], {kind: 'other'});
		const from = {mailFrom: 'ada@a.test'};
		const effect = await record(store, request, {to: [unsubscribeAddress(mail)], cameIn: from});
		t.like(effect, {kept: null, about: [{via: 'unsubscribe_mail', event: 'unsubscribed'}]});
		t.like((await timeline(store, mail))[0]?.detail, {topic: 'news', via: 'mail'});
		t.like(await store.reader('topic_optouts').first(), {
			code: 'news',
			address: 'ada@a.test',
			source: mail.messageId,
		});
		t.deepEqual(await suppressed(store, mail.workspaceId), []);

		await store.database('messages').update({topic_id: null});
		const clues = {addressees: [`${unsubscribeAddress(mail)}@bounces.shop.example`]};
		await record(store, request, {clues, cameIn: {source: 'maildir', mailFrom: null}});
		t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test unsubscribe ${mail.messageId}`]);
		t.deepEqual(await types(store, mail), ['unsubscribed', 'unsubscribed']);
	},
);

sqliteTest(test, 'accepts an unsubscribe request sent to a return path and does not retain it', async (t, store) => {
	const mail = await mailed(store);
	const request = reading([{...optOut, feedbackType: null}], {kind: 'other'});
	const effect = await record(store, request, {to: [returnPath(mail.to)], cameIn: {mailFrom: 'ada@a.test'}});
	t.like(effect, {kept: null, about: [{via: 'return_path', action: 'unsubscribe', event: 'unsubscribed'}]});
	t.like((await timeline(store, mail))[0], {type: 'unsubscribed', detail: {topic: null, via: 'mail'}});
	t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test unsubscribe ${mail.messageId}`]);
	const later = await mailed(store, 'later', 'eve@e.test');
	await record(store, request, {to: [returnPath(later.to)], cameIn: {mailFrom: ''}});
	t.deepEqual(await types(store, later), [], 'the null sender asks for nothing');
	const cut = {...request, fault: 'too many parts'};
	t.is((await record(store, cut, {to: [returnPath(mail.to)]})).kept, 'unread');
});

sqliteTest(test, 'does not unsubscribe on mail to the unsubscribe address that is not a request', async (t, store) => {
	const mail = await mailed(store);
	const to = [unsubscribeAddress(mail)];
	await record(store, reading([], {kind: 'auto_reply'}), {to, cameIn: {mailFrom: 'ada@a.test'}});
	await record(store, reading([delayed]), {to});
	t.like(await record(store, reading([], {kind: 'other'}), {to}), {kept: 'unread'}, 'the null sender: a bounce');
	const forged = [strangersLinks.unsubscribeLocal(mail.to.id, mail.to.address)];
	const other = reading([], {kind: 'other'});
	t.like(await record(store, other, {to: forged, cameIn: {mailFrom: 'a@b.test'}}), {kept: 'unmatched'});
	// The address is in a returned message; nobody wrote to it.
	const clues = {unsubscribeAddresses: [`${to[0]}@bounces.shop.example`]};
	await record(store, other, {clues, cameIn: {mailFrom: 'a@b.test', source: 'mbox'}});
	t.deepEqual(await suppressed(store, mail.workspaceId), []);
	t.deepEqual(await types(store, mail), []);
});

sqliteTest(test, 'moves sent to delivered when a relay reports that it passed the message on', async (t, store) => {
	const mail = await mailed(store);
	await store.database('recipients').update({state: 'sent'});
	await record(store, reading([relayed]), {to: [returnPath(mail.to)]});
	await record(store, reading([{...relayed, action: 'delivered'}]), {to: [returnPath(mail.to)]});
	t.is(await stateOf(store, mail.to), 'delivered');
	t.is(await stateOf(store, mail.cc), 'sent');
	t.deepEqual(await types(store, mail), ['delivered']);
	t.like((await timeline(store, mail))[0]?.detail, {action: 'relayed', via: 'dsn', recipient: 'ada@a.test'});
	t.like(await store.reader('usage_days').first(), {status: 'delivered', n: 1});
});

sqliteTest(test, 'changes the state of a test message without suppressing a real address', async (t, store) => {
	const mail = await mailed(store);
	await store.database('messages').update({mode: 'test'});
	await store.database('recipients').update({destination: 'simulator.test'});
	await record(store, reading([hard]), {to: [returnPath(mail.to)]});
	await record(store, reading([complaint], {kind: 'arf'}), {to: [returnPath(mail.cc)]});
	await record(store, reading([optOut], {kind: 'arf'}), {to: [returnPath(mail.cc)]});
	t.deepEqual((await types(store, mail)).toSorted(), ['bounced', 'complained', 'unsubscribed']);
	t.deepEqual(await suppressed(store, mail.workspaceId), []);
	t.deepEqual(await store.reader('usage_days'), []);
});

sqliteTest(test, 'stores report and event even if the state is final', async (t, store) => {
	const mail = await mailed(store);
	for (const state of ['suppressed', 'errored', 'bounced'] as const) {
		await store.database('recipients').update({state});
		await store.database('events').delete();
		await record(store, reading([hard]), {to: [returnPath(mail.to)]});
		t.is(await stateOf(store, mail.to), state);
		t.deepEqual(await types(store, mail), ['bounced'], state);
	}
	t.deepEqual(await store.reader('usage_days'), []);
});

storeTest(
	test,
	'suppresses an address with several recipients behind it only if none was reached',
	async (t, store) => {
		const mail = await mailed(store);
		const behind = (address: string, report = hard) => ({...report, recipient: address});
		const reports = [behind('one@x.test'), behind('two@x.test', soft)];
		await record(store, reading(reports), {to: [returnPath(mail.to)]});
		t.like((await timeline(store, mail))[0]?.detail, {category: 'mailbox_full'});
		const before = await types(store, mail);
		for (const [name, reached] of Object.entries({
			relayed: [behind('one@x.test'), behind('two@x.test', relayed)],
			delivered: [
				behind('one@x.test', {...relayed, action: 'delivered'}),
				behind('two@x.test'),
				behind('three@x.test'),
			],
			expanded: [behind('one@x.test', soft), behind('two@x.test', {...relayed, action: 'expanded'})],
			delayed: [behind('one@x.test'), behind('two@x.test', delayed)],
			'named twice': [behind('bob@b.test'), behind('BOB@b.test', relayed), behind('one@x.test')],
			'named and delayed': [behind('bob@b.test', delayed), behind('bob@b.test')],
			'one of a hundred': [
				...Array.from({length: 99}, (_, i) => behind(`n${i}@x.test`)),
				behind('bob@b.test', relayed),
			],
		})) {
			await record(store, reading(reached), {to: [returnPath(mail.cc)]});
			t.is(await stateOf(store, mail.cc), 'delivered', name);
		}
		t.deepEqual(await types(store, mail), before);
		t.deepEqual(await suppressed(store, mail.workspaceId), []);
		// Of several reports, those that name the address decide.
		const naming = [behind('one@x.test', soft), behind('x@y.test', {...hard, originalRecipient: 'Ada@a.test'})];
		await record(store, reading(naming), {to: [returnPath(mail.to)]});
		t.is((await suppressed(store, mail.workspaceId)).length, 1);
		await record(store, reading([behind('bob@b.test'), behind('bob@b.test', soft)]), {to: [returnPath(mail.cc)]});
		t.is(await stateOf(store, mail.cc), 'bounced');
		t.is(
			(await suppressed(store, mail.workspaceId)).length,
			1,
			'of two failures that name it the milder one counts',
		);
	},
);

sqliteTest(test, 'records a report whose envelope names several recipients for each of them', async (t, store) => {
	const mail = await mailed(store);
	const other = await mailed(store, 'other', 'eve@e.test');
	const reports = [hard, {...hard, recipient: 'eve@e.test', ...({suppresses: false, type: 'transient'} as const)}];
	const effect = await record(store, reading(reports), {
		to: [returnPath(mail.to), returnPath(other.to), 'postmaster'],
	});
	t.is(effect.about.length, 2);
	t.is(effect.kept, 'operator');
	t.is((await suppressed(store, mail.workspaceId)).length, 1);
	t.is((await suppressed(store, other.workspaceId)).length, 0);
	t.deepEqual(await types(store, other), ['bounced']);
});

sqliteTest(test, 'matches by the first valid token, even after a forged one', async (t, store) => {
	const mail = await mailed(store);
	const other = await mailed(store, 'other', 'eve@e.test');
	const clues = {
		envelopeIds: [strangersLinks.ref(other.to.id, other.to.address)],
		refs: [links.ref(mail.to.id, mail.to.address)],
		messageIds: [`${links.messageIdLocal(other.messageId)}@shop.example`],
	};
	t.like((await record(store, reading([hard]), {clues})).about, [{via: 'ref', recipientId: mail.to.id}]);
	t.deepEqual(await types(store, other), []);
});

storeTest(
	test,
	'matches a report to the same recipient whatever other reports share its transaction',
	async (t, store) => {
		const mail = await mailed(store);
		const messageIds = [`${links.messageIdLocal(mail.messageId)}@shop.example`];
		const unsubscribeAddresses = [`${links.unsubscribeLocal(mail.cc.id, mail.cc.address)}@bounces.shop.example`];
		const items = [
			await taken(store, reading([delayed]), {clues: {messageIds, unsubscribeAddresses}}),
			await taken(store, reading([delayed]), {clues: {messageIds}}),
		];
		for (const some of [items.slice(0, 1), items]) {
			const effects = await store.writer.transaction(async trx => await reportWrite.apply(trx, some));
			const found = effects.map(({about}) => about.map(({via, recipientId}) => [via, recipientId]));
			t.deepEqual(found[0], [['unsubscribe_address', mail.cc.id]]);
			t.deepEqual(found.slice(1), some.length > 1 ? [[['message_id', mail.to.id]]] : []);
		}
	},
);

storeTest(test, 'retains an unreadable message together with its recipient', async (t, store) => {
	const mail = await mailed(store);
	const to = [returnPath(mail.to)];
	t.is((await record(store, reading([], {kind: 'other'}), {to})).kept, 'unread');
	t.is((await record(store, reading([hard], {fault: 'too many parts'}), {to})).kept, 'unread');
	t.is((await record(store, reading([], {kind: 'other'}), {to: ['abuse']})).kept, 'operator');
	t.deepEqual(await types(store, mail), ['bounced']);
	t.is((await readReports(store.reader, mail.messageId, 10)).length, 2);
	t.deepEqual(
		(await store.reader('inbound').whereNotNull('fault')).map(row => row.fault),
		['too many parts'],
	);
});

sqliteTest(test, 'stores and retains nothing about an erased person', async (t, store) => {
	const mail = await mailed(store);
	const erased = {address: 'erased@erased.invalid', address_key: 'erased@erased.invalid'};
	await changeRecipients(store.database, all => all.where({id: mail.to.id}), erased);
	t.true(await isErased(store.reader, mail.to.id));
	t.deepEqual(await record(store, reading([hard]), {to: [returnPath(mail.to)]}), {about: [], kept: null});
	const clues = {messageIds: [`${links.messageIdLocal(mail.messageId)}@shop.example`]};
	t.deepEqual(await record(store, reading([hard]), {clues}), {about: [], kept: null});
	t.deepEqual(await types(store, mail), []);
	t.is((await store.reader('reports')).length, 0);
});

sqliteTest(test, 'leaves a report unmatched if its workspace or message was deleted', async (t, store) => {
	const mail = await mailed(store);
	await store.database('workspaces').delete();
	t.is((await record(store, reading([hard]), {to: [returnPath(mail.to)]})).kept, 'unmatched');
	await store.database('messages').delete();
	t.is((await record(store, reading([hard]), {to: [returnPath(mail.to)]})).kept, 'unmatched');
});

storeTest(test, 'notifies webhooks once', async (t, store) => {
	const mail = await mailed(store);
	await store.database('webhook_endpoints').insert({
		...{id: newId('whe'), workspace_id: mail.workspaceId, url: 'https://a.example', secret: 'x', created_at: 'now'},
		events: JSON.stringify(['bounced', 'complained']),
	});
	for (const report of [hard, hard, delayed, complaint, complaint]) {
		await record(store, reading([report]), {to: [returnPath(mail.to)]});
	}
	const rows = await store.reader('webhook_deliveries').orderBy('id');
	t.deepEqual(
		rows.map(row => row.event_type),
		['bounced', 'complained'],
	);
	t.like(JSON.parse(rows[0].body.toString()), {type: 'bounced', message_id: mail.messageId, recipient: 'ada@a.test'});
});

storeTest(
	test,
	'matches a trusted reporter’s report by the address if one workspace recently sent to it',
	async (t, store) => {
		const mail = await mailed(store);
		const arf = (recipient: string) => reading([{...complaint, recipient}], {kind: 'arf'});
		const trusted = {to: ['fbl'], reporter: 'arf.reporter.test'};
		t.is((await record(store, arf('ada@a.test'), {to: ['fbl']})).kept, 'unmatched', 'nobody vouches for it');
		t.is((await record(store, arf('victim@v.test'), trusted)).kept, 'unmatched', 'never mailed');
		t.is((await record(store, arf('bob@b.test'), trusted)).kept, 'unmatched', 'mailed as cc only');
		t.is((await record(store, reading([hard]), trusted)).kept, 'unmatched', 'no feedback report');
		const receivedAt = new Date(Date.now() + 91 * 86_400_000).toISOString();
		t.is(
			(await record(store, arf('ada@a.test'), {...trusted, cameIn: {receivedAt}})).kept,
			'unmatched',
			'long ago',
		);
		t.deepEqual(await types(store, mail), []);

		const effect = await record(store, arf('ADA@a.test'), trusted);
		t.like(effect, {kept: null, about: [{via: 'reporter', recipientId: mail.to.id, event: 'complained'}]});
		t.deepEqual(await suppressed(store, mail.workspaceId), [`ada@a.test complaint ${mail.messageId}`]);

		const other = await mailed(store);
		t.is((await record(store, arf('ada@a.test'), trusted)).kept, 'unmatched', 'nobody knows of whose mail it is');
		t.deepEqual(await types(store, other), []);
	},
);

storeTest(
	test,
	'limits the stored reports of one recipient, but always stores those that change something',
	async (t, store) => {
		const mail = await mailed(store);
		const flood = async (read: Reading) => {
			const mails: ReadMail[] = [];
			for (let n = 0; n < 130; n++) {
				mails.push(await taken(store, read, {to: [returnPath(mail.to)]}));
			}
			return await Promise.all(mails.map(one => store.writer.submit(reportWrite, one)));
		};
		const counted = async (table: string) => Number((await store.reader(table).count('* as n'))[0]?.n);
		await flood(reading([delayed]));
		t.deepEqual([await counted('reports'), await counted('inbound')], [20, 20]);

		t.is((await record(store, reading([hard]), {to: [returnPath(mail.to)]})).about[0]?.event, 'bounced');
		t.deepEqual([await counted('reports'), await counted('inbound')], [21, 21]);
		await flood(reading([hard]));
		// Unreadable messages; the first ones about a recipient would be retained for review.
		const effects = await flood(reading([], {kind: 'other'}));
		t.deepEqual([...new Set(effects.map(({kept}) => kept))], [null]);
		t.deepEqual([await counted('reports'), await counted('inbound')], [21, 21]);
		t.deepEqual(await types(store, mail), ['bounced']);
		t.is((await record(store, reading([hard]), {to: [returnPath(mail.cc)]})).about[0]?.event, 'bounced');
	},
);

storeTest(test, 'retains only the newest messages of a flood', async (t, store) => {
	const write = createReportWrite(eventWriter, {retentionDays: () => 90, caps: {messages: 20, bytes: 1e9}});
	for (let n = 0; n < 300; n++) {
		const receivedAt = new Date(Date.UTC(2026, 10, 21, 0, 0, n)).toISOString();
		await store.writer.submit(write, await taken(store, reading([hard]), {cameIn: {receivedAt}}));
	}
	const left: string[] = await store.reader('inbound').orderBy('received_at').pluck('received_at');
	t.is(left.length, 20);
	t.is(left[0], '2026-11-21T00:04:40.000Z');
});

sqliteTest(test, 'removes many small retained messages in favor of a few large ones', async (t, store) => {
	// A quarter of a mebibyte of each is retained.
	const large = 6 * 1024 * 1024;
	const write = createReportWrite(eventWriter, {
		retentionDays: () => 90,
		caps: {messages: 1000, bytes: 8 * 256 * 1024},
	});
	const add = async (n: number, size: number) => {
		const receivedAt = new Date(Date.UTC(2026, 10, 21, 0, 0, n)).toISOString();
		const mail = await taken(store, reading([hard]), {cameIn: {receivedAt}});
		await store.database('inbound').where({id: mail.inbound.id}).update({size});
		await store.writer.submit(write, {...mail, size});
	};
	for (let n = 0; n < 50; n++) {
		await add(n, 1000);
	}
	for (let n = 50; n < 100; n++) {
		await add(n, large);
	}
	t.deepEqual(await store.reader('inbound').pluck('size'), new Array(8).fill(large));
});

sqliteTest(test, 'truncates the texts of a report before storing them', async (t, store) => {
	const mail = await mailed(store);
	const long = 'x'.repeat(100_000);
	await record(store, reading([{...hard, recipient: long, matched: long, reason: long, host: long}]), {
		to: [returnPath(mail.to)],
	});
	const [report] = await store.reader('reports');
	t.true(JSON.stringify(report).length < 4096);
	t.true(JSON.stringify(await store.reader('events')).length < 4096);
});

sqliteTest(test, 'retains only the beginning of a large message', async (t, store) => {
	const raw = Buffer.concat([Buffer.from('Subject: x\r\n\r\n'), Buffer.alloc(900_000, '\0\xff', 'latin1')]);
	const size = raw.length;
	for (const to of [['fbl'], ['postmaster@bounces.test']]) {
		const mail = await taken(store, reading([hard]), {to});
		await store.database('inbound').where({id: mail.inbound.id}).update({raw, size});
		t.not((await store.writer.submit(reportWrite, {...mail, size})).kept, null);
		const row = await store.reader('inbound').where({id: mail.inbound.id}).first('raw', 'size');
		t.deepEqual({size: row.size, raw: Buffer.from(row.raw)}, {size, raw: raw.subarray(0, 256 * 1024)});
	}
});
