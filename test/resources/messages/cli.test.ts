import {mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {capturedName} from '../../../src/deliver/local-delivery.ts';
import {storeTime} from '../../../src/kit/time.ts';
import {toTerms} from '../../../src/mail/terms.ts';
import {insertTerms} from '../../../src/store/message-terms.ts';
import type {Store} from '../../../src/store/store.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {insertMessages, newId} from '../../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';
import {delayed, hard, reading, record, returnPath} from '../../helpers/reports.ts';

type Prepared = {readonly cli: Cli; readonly store: Store; readonly id: string; readonly recipientId: string};

/** A fresh store with one message that a mail server deferred with a long and hostile reply. */
async function prepare(t: ExecutionContext): Promise<Prepared> {
	const cli = await newCli(t);
	await cli.json('init');
	const store = await cli.store();
	const {id: workspaceId} = await store.reader('workspaces').first();
	const {id: templateId} = await store.reader('templates').first();
	const {id: versionId} = await store.reader('template_versions').first();
	const [id] = (await insertMessages(store, workspaceId, ['user@slow.example'])) as [string];
	const from = {from_address: 'hello@example.com', from_key: 'hello@example.com'};
	await store
		.database('messages')
		.where({id})
		.update({template_id: templateId, version_id: versionId, ...from});
	const next = '2099-01-01T00:00:00.000Z';
	const reply = '4.7.1 Try again later \x1b[31mnow\nsecond line';
	const recipient = await recipientRows(store.database).where({message_id: id}).first();
	const deferred = {state: 'queued', attempts: 1, next_attempt_at: next, subject: 'Größe', last_reply: reply};
	await changeRecipients(store.database, all => all.where({id: recipient.id}), deferred);
	await store.database('attempts').insert({
		recipient_id: recipient.id,
		n: 1,
		position: 0,
		at: storeTime(Date.now()),
		host: 'mx.slow.example',
		ip: '192.0.2.7',
		tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384 unverified',
		phase: 'rcpt',
		code: 451,
		enhanced: '4.7.1',
		reply,
		ms: 12,
		dialogue:
			'     0 S: 220 mx.slow.example\n     9 C: EHLO out.example\n    12 S: 451 4.7.1 Try again later \x1b[31mnow',
	});
	const at = storeTime(Date.now());
	await store.database('events').insert(
		['accepted', 'queued'].map(type => ({
			id: newId('evt'),
			message_id: id,
			type,
			occurred_at: at,
			recorded_at: at,
		})),
	);
	return {cli, store, id, recipientId: recipient.id};
}

test('message show prints status, timeline and attempts, with replies made safe to print', async t => {
	const {cli, id, recipientId} = await prepare(t);
	const shown = await cli.json<{message: object; events: object[]; recipients: object[]}>('message', 'show', id);
	t.like(shown.message, {
		id,
		status: 'queued',
		to: 'user@slow.example',
		template_name: 'sample',
		template_version: 1,
	});
	t.deepEqual(
		shown.events.map(event => (event as {type: string}).type),
		['accepted', 'queued'],
	);
	t.like(shown.recipients[0], {
		id: recipientId,
		address: 'user@slow.example',
		role: 'to',
		state: 'queued',
		next_attempt_at: '2099-01-01T00:00:00.000Z',
		captured: null,
		opens: null,
		clicks: [],
		attempts: {0: {n: 1, host: 'mx.slow.example', code: 451, enhanced: '4.7.1', phase: 'rcpt', ms: 12}},
	});
	const text = await cli.text('message', 'show', id);
	t.false(text.includes('\x1b'));
	golden(t, 'message-show', text);
	refused(
		t,
		await cli.run('message', 'show', newId('msg')),
		65,
		/message msg_\w+ not found, see mailctl message list/,
	);
	refused(t, await cli.run('message', 'show', "x' or 1=1"), 65, /message x' or 1=1 not found/);
});

test('message show prints the opens, clicks and unsubscribes of each recipient', async t => {
	const {cli, store, id, recipientId} = await prepare(t);
	const at = storeTime(Date.now());
	const url = 'https://shop.example/orders/1234?ref=mail\x1b';
	const row = {recipient_id: recipientId, first_at: at, last_at: at};
	await store.database('engagement').insert([
		{...row, kind: 'opened', url: '', n: 3, machine_n: 1},
		{...row, kind: 'clicked', url, n: 1, machine_n: 1},
	]);
	const event = (type: string, detail: object) => ({
		id: newId('evt'),
		message_id: id,
		type,
		occurred_at: at,
		recorded_at: at,
		detail: JSON.stringify({recipient: 'user@slow.example', role: 'to', ...detail}),
	});
	await store.database('events').insert(event('opened', {machine: false}));
	await store.database('events').insert(event('clicked', {url, machine: true}));
	await store.database('events').insert(event('unsubscribed', {topic: 'news', via: 'page'}));
	await store.database('events').insert(event('unsubscribed', {topic: null, via: 'one-click'}));
	const {recipients} = await cli.json<{recipients: object[]}>('message', 'show', id);
	t.like(recipients[0], {
		opens: {n: 3, machine_n: 1, first_at: at, last_at: at},
		clicks: [{url, n: 1, machine_n: 1, first_at: at, last_at: at}],
	});
	golden(t, 'message-show-tracked', await cli.text('message', 'show', id));
});

test('message show prints returned reports, made safe to print', async t => {
	const {cli, store, id} = await prepare(t);
	const recipient = await recipientRows(store.reader).where({message_id: id}).first();
	await changeRecipients(store.database, all => all, {
		state: 'delivered',
		sent_at: storeTime(Date.now()),
		next_attempt_at: null,
	});
	const to = [returnPath(recipient)];
	const hostile = {
		...hard,
		recipient: 'user@slow.example',
		reason: '550 5.1.1 User unknown \x1b[31m, sorry about that, really',
	};
	await record(store, reading([{...hostile, host: 'mx.slow.example'}]), {to});
	await record(store, reading([{...delayed, recipient: 'someone@else.example'}]), {to});
	await record(store, reading([], {kind: 'auto_reply'}), {to});
	const {recipients, events} = await cli.json<{recipients: Array<{reports: object[]}>; events: object[]}>(
		'message',
		'show',
		id,
	);
	t.like(recipients[0]?.reports, [
		{
			kind: 'dsn',
			action: 'failed',
			type: 'permanent',
			category: 'unknown_user',
			suppresses: true,
			via: 'return_path',
		},
		{kind: 'dsn', action: 'delayed', category: null, suppresses: false, recipient: 'someone@else.example'},
		{kind: 'auto_reply', action: 'none', reason: null, source: 'smtp'},
	]);
	t.like(events.at(-1), {type: 'bounced'});
	const text = await cli.text('message', 'show', id);
	t.false(text.includes('\x1b'));
	golden(t, 'message-show-reports', text);
});

test('message list prints the newest first and filters', async t => {
	const {cli, store, id} = await prepare(t);
	const {id: workspaceId} = await store.reader('workspaces').first();
	const [second] = await insertMessages(store, workspaceId, ['other@fast.example']);
	const {id: version_id} = await store.reader('template_versions').first();
	await store.database('messages').where({id: second}).update({version_id});
	const list = async (...args: string[]) =>
		(await cli.json<Array<{id: string}>>('message', 'list', ...args)).map(each => each.id);
	t.deepEqual(await list(), [second, id]);
	const [, listed] = await cli.json<object[]>('message', 'list');
	const {message: shown} = await cli.json<{message: object}>('message', 'show', id);
	t.deepEqual(Object.keys(listed as object), Object.keys(shown), 'a message has one JSON form, that of the API');
	const {created_at: _, updated_at: __, ...rest} = shown as {created_at: string; updated_at: string};
	t.like(listed, rest);
	t.deepEqual(await list('--status', 'queued', '--since', '1h'), [id]);
	t.deepEqual(await list('--recipient', 'OTHER@fast.example', '--limit', '1'), [second]);
	t.deepEqual(await list('--from', 'hello@example.com', '--until', '2000-01-01'), []);
	const terms = toTerms({metadata: '{"order":"A 1042"}', tags: null, attachments: []});
	await store.writer.transaction(trx => insertTerms(trx, [{workspaceId, messageId: id, terms}]));
	t.deepEqual(await list('--metadata', 'order=A 1042', '--metadata', 'a 1042'), [id]);
	t.deepEqual(await list('--metadata', 'A 1042', '--metadata', 'order=1042'), []);
	refused(t, await cli.run('message', 'list', '--metadata', '=1042'), 64, /"=1042" is not allowed/);
	golden(t, 'message-list', await cli.text('message', 'list'));
	const csv = await cli.text('message', 'list', '--csv');
	t.deepEqual(
		csv.split('\r\n').map(line => line.split(',')[0]),
		['id', second, id, ''],
	);
	refused(
		t,
		await cli.run('message', 'list', '--csv', '--json'),
		64,
		/--csv and --json cannot be combined, leave one out/,
	);
	const events = await cli.text('message', 'events', '--csv');
	t.regex(events, /^id,message_id,mode,type,occurred_at,recorded_at,detail\r\n/);
	refused(t, await cli.run('message', 'events'), 64, /--csv/);
	refused(t, await cli.run('message', 'list', '--recipient', 'nobody'), 65, /nobody is not a valid address/);
});

test('message raw prints the captured file, or renders the message again', async t => {
	const {cli, id, recipientId} = await prepare(t);
	const made = await cli.run('message', 'raw', id);
	t.is(made.code, 0, made.stderr);
	t.regex(made.stderr, /^mailctl: the message was not captured, so it was rendered again/);
	t.regex(made.stdout, /^DKIM-Signature: /);
	t.regex(made.stdout, /\r\nTo: user@slow\.example\r\n/);
	const kept = join(cli.folder, 'data/captured', capturedName(recipientId));
	await mkdir(join(cli.folder, 'data/captured'));
	await writeFile(kept, 'Subject: kept\r\n\r\nas it was\x1b\r\n');
	t.is(await cli.text('message', 'raw', id), 'Subject: kept\r\n\r\nas it was\x1b\r\n');
	t.is(
		await cli.text('message', 'raw', id, '--recipient', 'user@SLOW.example'),
		await cli.text('message', 'raw', id),
	);
	const {recipients} = await cli.json<{recipients: Array<{captured: string}>}>('message', 'show', id);
	t.true(kept.endsWith(recipients[0]?.captured as string));
	t.true((await cli.text('message', 'show', id)).includes(`\n  captured in ${recipients[0]?.captured}\n`));
	refused(t, await cli.run('message', 'raw', id, '--recipient', 'x@y.example'), 65, /has no recipient x@y\.example/);
});

test('a scheduled message is listed and shown with its time until it is sent', async t => {
	const {cli, store, id} = await prepare(t);
	const {id: workspaceId} = await store.reader('workspaces').first();
	const [second = ''] = await insertMessages(store, workspaceId, ['later@fast.example']);
	const {id: version_id} = await store.reader('template_versions').first();
	await store.database('messages').where({id: second}).update({version_id});
	t.deepEqual(await cli.json('message', 'list', '--scheduled'), []);
	t.regex(await cli.text('message', 'list', '--scheduled'), /no messages are scheduled/);
	refused(
		t,
		await cli.run('message', 'reschedule', id, '+2h'),
		65,
		/the first attempt of msg_\w+ has already started/,
	);
	refused(t, await cli.run('message', 'reschedule', second, 'soon'), 65, /the time must be an RFC 3339 time/);
	const {send_at: sendAt} = await cli.json<{send_at: string}>('message', 'reschedule', second, '+20d');
	const time = sendAt.slice(0, 19).replace('T', ' ');
	t.like(await cli.json('message', 'list', '--scheduled'), {length: 1, 0: {id: second}});
	const text = await cli.text('message', 'list', '--scheduled');
	t.true(text.includes('SENT AT UTC') && text.includes(time.slice(5, 16)), text);
	t.regex(await cli.text('message', 'show', second), new RegExp(`scheduled for +${time} UTC`));
	const [why] = await cli.json<Array<{gives_up_at: string; detail: string}>>('queue', 'why', second);
	t.is(Date.parse(`${why?.gives_up_at.slice(0, 19)}Z`) - Date.parse(`${sendAt.slice(0, 19)}Z`), 4 * 86_400_000);
	const extras = JSON.stringify({sendAt: '2099-01-01T00:00:00.000Z', expiresAt: '2099-01-02T00:00:00.000Z'});
	await store.database('messages').where({id: second}).update({extras});
	t.regex(await cli.text('message', 'show', second), /expires +2099-01-02 00:00:00 UTC/);
});
