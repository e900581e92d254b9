import test, {type ExecutionContext} from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {insertMessages, newId} from '../../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';

/** Always `in 5d 12h`, whatever the hour. */
const later = storeTime(Date.now() + (5 * 24 + 12.5) * 3_600_000);
const reply = '451 4.7.1 Try again later \x1b[31mnow';

/**
 * A fresh store with a deferred recipient (slow.example), one that is due (fast.example), one that is held and one
 * that was delivered (held.example).
 */
async function prepare(t: ExecutionContext, settings: Readonly<Record<string, string>> = {}) {
	const relay = {MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:2525'};
	const cli = await newCli(t, {...relay, ...settings});
	await cli.json('init');
	const store = await cli.store();
	const {id: workspaceId} = await store.reader('workspaces').first();
	const addresses = ['ann@slow.example', 'bob@fast.example', 'cy@held.example', 'dee@held.example'];
	const messages = await insertMessages(store, workspaceId, addresses);
	const recipients: string[] = [];
	for (const [index, values] of [
		{state: 'queued', attempts: 1, next_attempt_at: later, last_category: 'policy', last_reply: reply},
		{attempts: 0},
		{held_at: storeTime(Date.now())},
		{state: 'delivered', next_attempt_at: null, last_reply: '250 2.0.0 Ok'},
	].entries()) {
		await changeRecipients(store.database, all => all.where({message_id: messages[index]}), values);
		recipients.push((await recipientRows(store.reader).where({message_id: messages[index]}).first()).id);
	}
	await store.database('attempts').insert({
		recipient_id: recipients[0],
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
			'     0 S: 220 mx.slow.example\n     1 C: EHLO out.example\n     7 S: 451 4.7.1 Try again later \x1b[31mnow, and then once more, for this host is very busy',
	});
	const [slow = '', fast = '', held = '', over = ''] = recipients;
	const read = async (id: string) => await recipientRows(store.reader).where({id}).first();
	return {cli, store, workspaceId, messages, slow, fast, held, over, read};
}

/** Ages at their width. */
const masked = (text: string) => text.replace(/(?<= ) *(?:\d+m )?\d+s(?= {2}|$)/gm, all => '0s'.padStart(all.length));

const list = async (cli: Cli, ...args: string[]) =>
	(await cli.json<Array<{address: string}>>('queue', 'list', ...args)).map(({address}) => address);

test('queue summary and list', async t => {
	const {cli, slow, messages} = await prepare(t);
	await cli.text('queue', 'suspend', 'fast.example', '--reason', 'disk full');
	await cli.text('queue', 'suspend', 'empty.example');
	const rows = await cli.json<Array<{destination: string; oldest: string}>>('queue', 'summary');
	const row = rows.find(({destination}) => destination === 'slow.example');
	t.deepEqual(row as object, {
		destination: 'slow.example',
		ready: 0,
		deferred: 1,
		in_flight: 0,
		held: 0,
		by_priority: {high: 0, normal: 1, low: 0},
		oldest: row?.oldest,
		last_reply: reply,
		suspended: false,
		suspended_by: null,
		suspended_until: null,
		suspension_reason: null,
		suspension_advice: null,
	});
	t.like(rows[0], {destination: 'fast.example', ready: 1, suspended: true, suspended_by: 'operator'});
	t.like(rows[3], {destination: 'empty.example', ready: 0, oldest: null, suspended: true});
	golden(t, 'queue-summary', masked(await cli.text('queue', 'summary')));

	const [recipient] = await cli.json<object[]>(
		'queue',
		'list',
		'--destination',
		'slow.example',
		'--older-than',
		'0s',
	);
	t.like(recipient, {id: slow, message_id: messages[0], address: 'ann@slow.example', queue: 'deferred', attempts: 1});
	t.deepEqual(await list(cli, '--older-than', '1h'), []);
	t.deepEqual(await list(cli, '--held'), ['cy@held.example']);
	t.deepEqual(await list(cli, '--suspended'), ['bob@fast.example']);
	golden(t, 'queue-list', masked(await cli.text('queue', 'list', '--wide')));
});

test('where a destination blocks our address, summary and recipients say whom to contact', async t => {
	const {cli, store, workspaceId, fast} = await prepare(t);
	const [until, at] = [storeTime(Date.now() + 3_600_000), storeTime(Date.now())];
	const advice = 'write to postmaster@fast.example';
	await store.database('sites').insert({
		...{site: 'mx.fast.example', provider: 'default', suspended_until: until, reason: '550 IP is blocked', advice},
		...{waits_for: 'suspension', step: 0, window: 1, updated_at: at},
	});
	await store.database('lane_waits').insert({
		...{destination: 'fast.example', workspace_id: workspaceId, node: 'n', site: 'mx.fast.example'},
		...{
			waits_for: 'suspension',
			detail: JSON.stringify({reply: '550 IP is blocked', probing: false}),
			updated_at: at,
		},
	});
	const rows = await cli.json<Array<{destination: string}>>('queue', 'summary');
	t.like(
		rows.find(({destination}) => destination === 'fast.example'),
		{suspended_by: 'failures', suspension_reason: '550 IP is blocked', suspension_advice: advice},
	);
	t.regex(
		await cli.text('queue', 'summary'),
		/^fast\.example: our address is blocked\. What to do: write to\s+postmaster@/m,
	);
	t.regex(
		await cli.text('queue', 'why', fast),
		/is blocking our\s+address[\s\S]*write to\s+postmaster@fast\.example/,
	);
});

test('queue summary says when the queue is empty', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	t.is(await cli.text('queue', 'summary'), 'no messages are waiting\n');
});

test('queue why prints what each recipient waits for and what would change it', async t => {
	const {cli, messages, slow, fast, held, over} = await prepare(t);
	await cli.text('queue', 'hold', slow, '--reason', 'ask the customer first');
	const answers = await cli.json<Array<Record<string, unknown>>>('queue', 'why', slow, fast, held, over);
	t.deepEqual(
		answers.map(({id, waits_for: waitsFor}) => [id, waitsFor]),
		[
			[slow, 'hold'],
			[fast, 'daemon'],
			[held, 'hold'],
			[over, null],
		],
	);
	const text = await cli.text('queue', 'why', ...messages);
	t.false(text.includes('\x1b'));
	t.true(text.includes('ask the customer first'));
	golden(t, 'queue-why', masked(text).replaceAll(/ by \w+:/g, ' by ann:'));
	t.is(await cli.text('queue', 'why', '--destination', 'none.example'), 'nothing in the queue matches\n');
	refused(t, await cli.run('queue', 'why', newId('rcp')), 65, /recipient rcp_\w+ not found/);
});

test('queue trace prints what each recipient waits for and every attempt with its reply', async t => {
	const {cli, store, slow, fast, messages, workspaceId} = await prepare(t);
	const tracedOf = async (id: string) =>
		(await cli.json<{copies: object[]}>('queue', 'trace', id)).copies[0] as Record<string, unknown>;
	const [why] = await cli.json<object[]>('queue', 'why', slow);
	t.like(await tracedOf(slow), {
		...why,
		id: slow,
		state: 'queued',
		next_attempt_at: later,
		site: null,
		attempts: {0: {host: 'mx.slow.example', n: 1}},
	});
	const text = await cli.text('queue', 'trace', ...messages.slice(0, 2));
	t.false(text.includes('\x1b'));
	golden(t, 'queue-trace', masked(text));
	t.is(await cli.text('queue', 'trace', '--destination', 'none.example'), 'nothing in the queue matches\n');
	refused(t, await cli.run('queue', 'trace', slow, '--follow', '--json'), 64, /leave out --json/);

	const until = storeTime(Date.now() + 3_600_000);
	const site = 'smarthost 127.0.0.1:2525';
	const suspended = {site, suspended_until: until, reason: '421 too many', step: 1, window: 1, updated_at: until};
	await store.database('sites').insert({...suspended, provider: 'x'});
	await store.database('lane_waits').insert({
		...{destination: 'fast.example', workspace_id: workspaceId, node: 'n', site, waits_for: 'suspension'},
		...{detail: JSON.stringify({reply: '421 too many', probing: false}), updated_at: until},
	});
	t.like((await tracedOf(fast)).also, [{waits_for: 'suspension', until}]);
	t.is((await tracedOf(fast)).site, site);
	t.regex(
		await cli.text('queue', 'trace', fast),
		/Sending to smarthost[\s\S]*is backing off until[\s\S]*421\s+too many/,
	);
	t.deepEqual((await cli.json<{sites: string[]}>('queue', 'resume', 'fast.example')).sites, [site]);
});

test('hold, release and flush by id, message and filter', async t => {
	const {cli, store, messages, slow, fast, held, over, read} = await prepare(t);
	t.is(await cli.text('queue', 'hold', messages[0] ?? '', fast), 'held 2 recipients\n');
	t.like(await read(slow), {state: 'queued', next_attempt_at: later});
	t.deepEqual(await cli.json('queue', 'hold', '--older-than', '0s'), {
		held: 0,
		unchanged: 3,
		in_flight: 0,
		not_queued: 0,
	});
	t.is(await cli.text('queue', 'release', slow, over), 'released 1 recipient\n1 recipient no longer in the queue\n');
	t.is((await read(slow)).held_at, null);
	t.is(await cli.text('queue', 'flush'), '1 recipient due now\n2 recipients unchanged: nothing to do\n');
	t.true((await read(slow)).next_attempt_at <= storeTime(Date.now()));
	t.not((await read(held)).held_at, null);
	t.is(await cli.text('queue', 'flush', '--destination', 'none.example'), 'nothing in the queue matches\n');
	const audit = await store.reader('audit').whereLike('action', 'queue.%').orderBy('id');
	t.deepEqual(
		audit.map(({action, target}) => [action, target]),
		[
			['queue.held', null],
			['queue.released', slow],
			['queue.flushed', slow],
		],
	);
	t.like(JSON.parse(audit[0].detail), {copies: 2});
});

test('drop and fail end waiting recipients', async t => {
	const {cli, slow, fast, held, read, store} = await prepare(t);
	refused(t, await cli.run('queue', 'drop', slow), 64, /no terminal to confirm it, add --yes/);
	t.is((await read(slow)).state, 'queued');
	t.is(await cli.text('queue', 'drop', slow, '--yes'), 'dropped 1 recipient\n');
	t.like(await read(slow), {state: 'errored', next_attempt_at: null});
	t.is(
		await cli.text('queue', 'fail', '--destination', 'fast.example', '--reason', 'too old'),
		'failed 1 recipient\n',
	);
	t.is((await read(fast)).state, 'bounced');
	t.is(await cli.text('queue', 'fail', held), 'failed 1 recipient\n');
	const events = await store.reader('events').orderBy('id').select('type', 'detail');
	t.deepEqual(
		events.map(({type, detail}) => [type, JSON.parse(detail).reason]),
		[
			['errored', 'dropped'],
			['bounced', 'too old'],
			['bounced', 'given up by the operator'],
		],
	);
	t.is(await cli.text('queue', 'drop', slow), '1 recipient no longer in the queue\n');
});

test('suspend and resume can be repeated', async t => {
	const {cli} = await prepare(t);
	const suspended = await cli.json<{created_at: string}>('queue', 'suspend', 'New.Example');
	t.like(suspended, {destination: 'new.example', reason: 'suspended by the operator', suspended: true});
	t.deepEqual(await cli.json('queue', 'suspend', 'new.example', '--reason', 'x'), {...suspended, reason: 'x'});
	t.deepEqual(await cli.json('queue', 'suspend', 'new.example'), {...suspended, reason: 'x'});
	t.is(await cli.text('queue', 'resume', 'new.example'), 'sending to new.example resumed\n');
	t.is(await cli.text('queue', 'resume', 'new.example'), 'new.example was not suspended\n');
	refused(t, await cli.run('queue', 'suspend', 'localhost'), 65, /localhost is not a valid domain name/);
});

test('rejects missing or conflicting selections, and messages of another workspace', async t => {
	const {cli, slow, read} = await prepare(t);
	for (const verb of ['hold', 'release', 'drop', 'fail', 'why', 'trace']) {
		refused(t, await cli.run('queue', verb), 64, /no messages were selected, give ids/);
	}
	refused(t, await cli.run('queue', 'hold', slow, '--older-than', '1h'), 64, /ids and filters cannot be combined/);
	refused(t, await cli.run('queue', 'hold', slow, "x' or 1=1"), 65, /is not the id of a message or a recipient/);
	refused(t, await cli.run('queue', 'hold', slow, newId('msg')), 65, /message msg_\w+ not found/);
	t.is((await read(slow)).held_at, null);
	await cli.text('workspace', 'create', '--name', 'other');
	refused(t, await cli.run('queue', 'hold', slow, '--workspace', 'other'), 65, /recipient rcp_\w+ not found/);
	t.is(await cli.text('queue', 'flush', '--workspace', 'other'), 'nothing in the queue matches\n');
});

test('leaves a recipient with an attempt in progress alone while its daemon runs', async t => {
	const {cli, store, slow, read} = await prepare(t, {MAILCTL_ROLES: 'api'});
	const daemon = await cli.serve();
	await changeRecipients(store.database, all => all.where({id: slow}), {claimed_by: newId('req')});
	const {code, stdout, stderr} = await cli.run('queue', 'hold', '--destination', 'slow.example');
	t.is(code, 75);
	t.is(stdout, '');
	t.is(stderr, 'mailctl: 1 recipient being attempted right now, run it again in a moment\n');
	t.is((await read(slow)).held_at, null);
	t.is(await cli.text('queue', 'flush', slow), '1 recipient being attempted right now\n');
	t.like((await cli.json<object[]>('queue', 'why', slow))[0], {waits_for: 'in_flight'});
	await daemon.stop();
	await changeRecipients(store.database, all => all.where({id: slow}), {claimed_by: newId('req')});
	t.is(await cli.text('queue', 'hold', slow), 'held 1 recipient\n');
	t.like(await read(slow), {claimed_by: null, next_attempt_at: later});
});
