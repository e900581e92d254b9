import {randomBytes} from 'node:crypto';
import test from 'ava';
import {createLinks} from '../../src/compose/links/links.ts';
import {toReceived} from '../../src/inbound/received.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createPastIds} from '../../src/mail/ids.ts';
import {uncheckedVerdicts, unreadableMessage} from '../../src/mail/received.ts';
import type {Reading, StoredInbound} from '../../src/mail/report.ts';
import {insertReceived, listReceived} from '../../src/resources/received/store.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

const links = createLinks({keys: {current: 1, keys: {1: randomBytes(32)}}, publicUrl: '', random: randomBytes});
const inbox = 'support@in.shop.example';
const raw = Buffer.from('From: ada@example.net\r\n\r\nYes.\r\n');

/** Workspaces `owner`, which receives mail at the address, and `other`, each with two messages. */
async function prepare(store: Store) {
	const [owner, other] = [await insertWorkspace(store, 'owner'), await insertWorkspace(store, 'other')];
	const [first, second] = await insertMessages(store, owner.workspaceId, ['ada@example.net', 'bob@example.net']);
	const [theirs] = await insertMessages(store, other.workspaceId, ['ada@example.net']);
	await store.writer.transaction(async trx => {
		const row = {id: 'inb_1', workspace_id: owner.workspaceId, address: inbox, created_at: storeTime(0)};
		await trx('inbound_addresses').insert(row);
	});

	let n = 0;
	/** Records the id that a relay gave a message. */
	const relayedAs = async (messageId: string, providerId: string) => {
		const recipient = await store.reader('recipients').where({message_id: messageId}).first('id');
		const attempt = {
			recipient_id: recipient.id,
			n: ++n,
			position: 0,
			at: storeTime(0),
			phase: 'dot',
			reply: 'Ok',
			ms: 1,
		};
		await store.writer.transaction(trx => trx('attempts').insert({...attempt, provider_id: providerId}));
	};

	const options = {reader: store.reader, links, pastId: createPastIds(), publicUrl: ''};
	const receive = async (answers: readonly string[], receivedAt = storeTime(0)) => {
		const cameIn = {id: randomBytes(8).toString('hex'), rcptTo: [inbox], mailFrom: 'ada@example.net', receivedAt};
		const reading = {
			message: {...unreadableMessage('x'), fault: null, repliedTo: answers},
			verdicts: uncheckedVerdicts,
		};
		const [received] = await toReceived(
			options,
			cameIn as unknown as StoredInbound,
			reading as unknown as Reading,
			raw,
		);
		return received?.mail;
	};
	const messageIds = {first: first as string, second: second as string, theirs: theirs as string};
	return {...messageIds, workspaceId: owner.workspaceId, relayedAs, receive, options};
}

storeTest(test, 'matches a quoted address like an unquoted one, whatever delivered the message', async (t, store) => {
	const {first, options} = await prepare(store);
	const {id} = await store.reader('recipients').where({message_id: first}).first('id');
	const replyAddress = `${links.replyLocal(id, 'ada@example.net')}@bounce.shop.example`;
	const quoted = [replyAddress, inbox].map(address => address.replace(/^[^@]+/, '"$&"'));
	const cameIn = {id: 'in1', rcptTo: quoted, mailFrom: 'ada@example.net', receivedAt: storeTime(0)};
	const reading = {message: {...unreadableMessage('x'), fault: null}, verdicts: uncheckedVerdicts};
	const mails = await toReceived(options, cameIn as unknown as StoredInbound, reading as unknown as Reading, raw);
	t.is(mails.length, 1);
	t.is(mails[0]?.mail.inReplyTo, first);
	t.deepEqual(mails[0]?.mail.summary.recipients.toSorted(), [replyAddress, inbox].toSorted());
});

storeTest(test, 'finds the message that a reply refers to by the Message-ID of a provider', async (t, store) => {
	const {first, second, theirs, relayedAs, receive} = await prepare(store);
	const ses = '0102019a2b3c4d5e-6f708192-a3b4-c5d6-e7f8-091a2b3c4d5e-000000';
	await relayedAs(first, ses);
	await relayedAs(second, '202611281030.12345@smtp-relay.example');
	await relayedAs(theirs, '0102019a2b3c4d5e-00000000-0000-0000-0000-000000000000-000000');
	await relayedAs(second, '4BF2C12345');
	await relayedAs(first, 'the-same-name-for-all');
	await relayedAs(second, 'the-same-name-for-all');
	const answered = async (...answers: string[]) => (await receive(answers))?.inReplyTo;
	t.is(await answered(`<${ses}@email.amazonses.com>`), first);
	t.is(await answered(`<${ses}@eu-west-1.amazonses.com>`), first);
	t.is(await answered('<unknown@example.net>', `<${ses}@email.amazonses.com>`), first);
	t.is(await answered('<202611281030.12345@smtp-relay.example>'), second);
	// The nearest message of the thread counts, whoever assigned its id.
	const own = `<${links.messageIdLocal(second)}@shop.example>`;
	t.is(await answered(`<${ses}@email.amazonses.com>`, own), first);
	t.is(await answered(own, `<${ses}@email.amazonses.com>`), second);
	// Messages of other workspaces, short ids that could be guessed and ambiguous ids match nothing.
	t.is(await answered('<0102019a2b3c4d5e-00000000-0000-0000-0000-000000000000-000000@email.amazonses.com>'), null);
	t.is(await answered('<4BF2C12345@relay.example>'), null);
	t.is(await answered('<the-same-name-for-all@relay.example>'), null);
});

storeTest(test, 'lists received mail by its time of arrival, even if it was read late', async (t, store) => {
	const {workspaceId, receive} = await prepare(store);
	const noon = Date.parse('2026-11-29T12:00:00Z');
	// In the order in which they are read.
	for (const minute of [3, 0, 4, 1, 2]) {
		const mail = await receive([], storeTime(noon + minute * 60_000));
		await store.writer.transaction(async trx => await insertReceived(trx, mail === undefined ? [] : [mail]));
	}
	const filter = {workspaceId, terms: []};
	const minutes = (rows: ReadonlyArray<{readonly receivedAt: string}>) =>
		rows.map(({receivedAt}) => (Date.parse(receivedAt) - noon) / 60_000);
	t.deepEqual(minutes((await listReceived(store.reader, filter)).rows), [4, 3, 2, 1, 0]);
	const times = {since: noon + 60_000, until: noon + 3 * 60_000};
	t.deepEqual(minutes((await listReceived(store.reader, {...filter, ...times})).rows), [2, 1]);

	// A message that is read between two pages neither repeats nor hides others.
	const page = await listReceived(store.reader, filter, {after: null, limit: 2});
	const late = await receive([], storeTime(noon + 3.5 * 60_000));
	await store.writer.transaction(async trx => await insertReceived(trx, late === undefined ? [] : [late]));
	const rest = await listReceived(store.reader, filter, {after: page.next, limit: 9});
	t.deepEqual([...minutes(page.rows), ...minutes(rest.rows)], [4, 3, 2, 1, 0]);
});
