import test from 'ava';
import type {Session} from '../../src/deliver/open-session.ts';
import {ConnectionPool, type Slot} from '../../src/deliver/pool.ts';
import {plainTerms, startLab, testDelivery} from '../helpers/delivery-lab.ts';
import type {FakeMxOptions} from '../helpers/fake-mx.ts';
import {holdMail} from '../helpers/held-mail.ts';
import {waitFor} from '../helpers/wait.ts';

const slow: FakeMxOptions = {extensions: ['PIPELINING']};

test('delivers everything without exceeding the connection limit of a provider', async t => {
	const lab = await startLab(t, [slow], {limit: 3});
	const results = await Promise.all(Array.from({length: 200}, () => lab.deliver()));
	t.true(results.every(({outcome}) => outcome.kind === 'delivered'));
	t.is(lab.hosts[0]?.received.length, 200);
	t.true((lab.hosts[0]?.maxOpen() ?? 0) <= 3);
});

test('frees the slot of a closed connection once the server has been notified', async t => {
	const pool = new ConnectionPool({maxSessions: 10, idleMs: 1000, quitMs: 1000});
	const first = await pool.acquire('site', 1, {workspaceId: 'ws_1', fits: () => true, waitMs: 60_000});
	const second = pool.acquire('site', 1, {workspaceId: 'ws_1', fits: () => true, waitMs: 60_000});
	first?.release(null);
	t.deepEqual(pool.count(), {busy: 0, idle: 0, waiting: 1});
	t.is((await second)?.session, null);
	t.deepEqual(pool.count(), {busy: 1, idle: 0, waiting: 0});
});

test('gives the next connection to high-priority messages, at most seven times in a row', async t => {
	const pool = new ConnectionPool({maxSessions: 10, idleMs: 1000, quitMs: 1000});
	const wanted = {workspaceId: 'ws_1', fits: () => true, waitMs: 60_000};
	const order: string[] = [];
	const slots: Slot[] = [];
	const ask = async (name: string, isHigh: boolean) => {
		const slot = await pool.acquire('site', 1, {...wanted, precedence: {isHigh, leaves: 0}});
		order.push(name);
		slots.push(slot as Slot);
	};
	const asked = [ask('first', false), ask('low 1', false), ask('low 2', false)];
	for (let n = 1; n <= 9; n++) {
		asked.push(ask(`high ${n}`, true));
	}
	for (let served = 0; served < asked.length; served++) {
		await waitFor('a slot', () => slots.length > 0);
		slots.shift()?.release(null);
	}
	await Promise.all(asked);
	const high = (from: number, to: number) => Array.from({length: to - from + 1}, (_, n) => `high ${from + n}`);
	t.deepEqual(order, ['first', ...high(1, 7), 'low 1', ...high(8, 9), 'low 2']);
	await pool.close();
});

test('reserves a connection for high-priority messages, unless the limit is one', async t => {
	const pool = new ConnectionPool({maxSessions: 10, idleMs: 1000, quitMs: 1000});
	const acquire = (name: string, limit: number, isHigh: boolean) =>
		pool.acquire(name, limit, {
			workspaceId: 'ws_1',
			fits: () => true,
			waitMs: 60_000,
			precedence: {isHigh, leaves: isHigh ? 0 : 1},
		});
	t.truthy(await acquire('site', 2, false));
	const second = acquire('site', 2, false);
	t.deepEqual(pool.count(), {busy: 1, idle: 0, waiting: 1});
	t.truthy(await acquire('site', 2, true));
	pool.allow('site', 3);
	t.is(pool.count().waiting, 1, 'two are busy, and one is left to high mail');
	pool.allow('site', 4);
	t.truthy(await second);
	t.truthy(await acquire('narrow', 1, false));
});

test('opens a new connection after the maximum number of messages', async t => {
	const lab = await startLab(t, [slow], {limit: 1, terms: {mailsPerSession: 10}});
	for (let n = 0; n < 25; n++) {
		t.is((await lab.deliver()).outcome.kind, 'delivered');
	}

	const mails = lab.hosts[0]?.connections.map(
		({commands}) => commands.filter(line => line.startsWith('MAIL')).length,
	);
	t.deepEqual(mails, [10, 10, 5]);
	t.is(lab.hosts[0]?.maxOpen(), 1);
	t.is(lab.hosts[0]?.connections[0]?.commands.at(-1), 'QUIT');
});

test('sends as many messages per connection as the recipient’s terms allow', async t => {
	const lab = await startLab(t, [slow], {limit: 1});
	const port = lab.hosts[0]?.port ?? 0;
	const host = lab.hosts[0]?.host ?? '';
	const relay = {host, port, secure: false, tls: 'none', user: null, password: null} as const;
	const nextHop = {kind: 'relay', relays: [relay], acceptMeans: 'sent'} as const;
	const smarthost = await startLab(t, [], {limit: 1, terms: {nextHop, mailsPerSession: 1000}});
	for (let n = 0; n < 51; n++) {
		await lab.deliver();
	}

	t.is(lab.hosts[0]?.connections.length, 2);
	for (let n = 0; n < 51; n++) {
		await smarthost.deliver();
	}

	t.is(lab.hosts[0]?.connections.length, 3);
});

test('closes an idle connection after a while', async t => {
	const lab = await startLab(t, [slow], {idleMs: 20});
	await lab.deliver();
	await waitFor('the idle connection is gone', () => lab.hosts[0]?.open() === 0);
	t.is(lab.hosts[0]?.connections[0]?.commands.at(-1), 'QUIT');
	t.deepEqual(lab.deliverer.count(), {busy: 0, idle: 0, waiting: 0});
});

test('forgets an idle connection that the server closes', async t => {
	const lab = await startLab(t, [slow]);
	await lab.deliver();
	await waitFor('the session is idle', () => lab.deliverer.count().idle === 1);
	lab.hosts[0]?.connections[0]?.say('421 4.4.2 idle\r\n');
	await waitFor('it is forgotten', () => lab.deliverer.count().idle === 0);
	t.is((await lab.deliver()).outcome.kind, 'delivered');
});

test('closes idle connections for other providers to stay within the total limit', async t => {
	const domains = Array.from({length: 8}, (_, n) => `d${n}.test`);
	const first = await startLab(t, [slow]);
	const host = first.hosts[0]?.host ?? '';
	const lab = await startLab(t, [], {
		maxSessions: 2,
		mode: {kind: 'hosts', port: first.hosts[0]?.port ?? 0},
		zone: Object.fromEntries(domains.map(domain => [domain, {a: [host]}])),
	});
	const results = await Promise.all(
		domains.flatMap(domain => [1, 2, 3].map(() => lab.deliver({destination: domain}))),
	);
	t.true(results.every(({outcome}) => outcome.kind === 'delivered'));
	t.true((first.hosts[0]?.maxOpen() ?? 0) <= 2);
});

test('providers take turns: a long queue for one does not delay another', async t => {
	const order: string[] = [];
	const mx = await startLab(t, [
		{...slow, rcpt: line => void order.push(/@(\w+)/.exec(line)?.[1] ?? '') as undefined},
	]);
	const host = mx.hosts[0]?.host ?? '';
	const lab = await startLab(t, [], {
		maxSessions: 1,
		mode: {kind: 'hosts', port: mx.hosts[0]?.port ?? 0},
		zone: {'busy.test': {a: [host]}, 'calm.test': {a: [host]}},
	});
	const to = (domain: string) => {
		const envelope = {from: 'b@mail.test', to: `user@${domain}`, smtputf8: false};
		return lab.deliver({destination: domain, envelope});
	};

	const queue = Array.from({length: 30}, () => to('busy.test'));
	queue.push(to('calm.test'));
	await Promise.all(queue);
	t.true(order.indexOf('calm') < 5, order.join());
});

test('an unresponsive mail server does not delay messages to others', async t => {
	const frozen = await startLab(t, [{greeting: {do: 'never'}}]);
	const lab = await startLab(t, [{}], {
		limit: 2,
		mode: {kind: 'hosts', port: frozen.hosts[0]?.port ?? 0},
		zone: {'frozen.test': {a: [frozen.hosts[0]?.host ?? '']}},
	});
	const stop = new AbortController();
	const stuck = Array.from({length: 20}, () => lab.deliver({destination: 'frozen.test'}, stop.signal));
	await waitFor('two connections hang', () => frozen.hosts[0]?.open() === 2);
	lab.dns.zone['calm.test'] = {a: [(await startLab(t, [{port: frozen.hosts[0]?.port ?? 0}])).hosts[0]?.host ?? '']};
	t.is((await lab.deliver({destination: 'calm.test'})).outcome.kind, 'delivered');
	t.deepEqual(lab.deliverer.count().busy >= 2, true);
	stop.abort();
	t.true((await Promise.all(stuck)).every(({outcome}) => outcome.kind === 'released'));
});

test('does not reuse a session for a different mail server of the same provider', async t => {
	const one = await startLab(t, [slow]);
	const port = one.hosts[0]?.port ?? 0;
	const two = await startLab(t, [{...slow, port}]);
	const lab = await startLab(t, [], {
		mode: {kind: 'hosts', port},
		zone: {'one.test': {a: [one.hosts[0]?.host ?? '']}, 'two.test': {a: [two.hosts[0]?.host ?? '']}},
	});
	for (const destination of ['one.test', 'two.test', 'one.test', 'two.test']) {
		const {outcome} = await lab.deliverer.deliver('shared', 1, testDelivery({destination}));
		t.is(outcome.kind, 'delivered');
	}

	t.is(one.hosts[0]?.received.length, 2);
	t.is(two.hosts[0]?.received.length, 2);
	t.is(one.hosts[0]?.connections.length, 2);
});

test('close releases waiting messages, finishes running attempts and sends QUIT on idle sessions', async t => {
	const held = holdMail();
	const lab = await startLab(t, [{...slow, dot: held.dot}], {limit: 1});
	const under = lab.deliver();
	const waiting = lab.deliver();
	await waitFor('one waits', () => held.waiting.length === 1 && lab.deliverer.count().waiting === 1);
	const closed = lab.deliverer.close();
	held.open(true);
	await closed;
	t.is((await under).outcome.kind, 'delivered');
	t.is((await waiting).outcome.kind, 'released');
	t.is((await lab.deliver()).outcome.kind, 'released');
	t.is(lab.hosts[0]?.connections[0]?.commands.at(-1), 'QUIT');
	t.deepEqual(lab.deliverer.count(), {busy: 0, idle: 0, waiting: 0});
});

test('sends from the source address of the target’s family, with that source’s hostname', async t => {
	const sources = [
		{address: '::1', hostname: 'six.mail.test'},
		{address: '127.0.0.31', hostname: 'four.mail.test'},
	];
	const lab = await startLab(t, [slow], {terms: {sources, mailsPerSession: 1}});
	t.is((await lab.deliver()).outcome.kind, 'delivered');
	t.is(
		(await lab.deliver({terms: {...plainTerms, sources: [{address: '127.0.0.32', hostname: null}]}})).outcome.kind,
		'delivered',
	);
	const seen = lab.hosts[0]?.connections.map(({remoteAddress, commands}) => `${remoteAddress} ${commands[0]}`) ?? [];
	t.deepEqual(seen, ['127.0.0.31 EHLO four.mail.test', '127.0.0.32 EHLO out.mail.test']);
});

test('does not reuse a session for a different source address', async t => {
	const lab = await startLab(t, [slow], {limit: 2});
	const from = (address: string) => lab.deliver({terms: {...plainTerms, sources: [{address, hostname: null}]}});
	for (const address of ['127.0.0.31', '127.0.0.32', '127.0.0.31', '127.0.0.32']) {
		t.is((await from(address)).outcome.kind, 'delivered');
	}

	const seen = lab.hosts[0]?.connections.map(({remoteAddress}) => remoteAddress);
	t.deepEqual(seen, ['127.0.0.31', '127.0.0.32']);
});

test('defers with category config if no source address has the target’s family', async t => {
	const lab = await startLab(t, [slow], {terms: {sources: [{address: '::1', hostname: null}]}});
	t.like((await lab.deliver()).outcome, {kind: 'deferred', category: 'config'});
	t.is(lab.hosts[0]?.connections.length, 0);
});

test('applies a lower limit at once, and releases waiting messages if it is zero', async t => {
	const {waiting, dot, answer, open} = holdMail();
	const lab = await startLab(t, [{...slow, dot}], {limit: 4});
	const results = Array.from({length: 12}, () => lab.deliver());
	await waitFor('four mails are under way', () => waiting.length === 4);
	lab.deliverer.allow('example.test', 2);
	answer('250 2.0.0 Ok: queued');
	await waitFor('two mails are under way', () => waiting.length === 2);
	t.is(lab.hosts[0]?.open(), 2);
	lab.deliverer.allow('example.test', 3);
	await waitFor('three mails are under way', () => waiting.length === 3);

	lab.deliverer.allow('example.test', 0);
	open(true);
	const kinds = (await Promise.all(results)).map(({outcome}) => outcome.kind);
	t.deepEqual([...kinds].sort(), [...Array(7).fill('delivered'), ...Array(5).fill('released')]);
	await waitFor('no connection is kept', () => lab.hosts[0]?.open() === 0);
	t.is((await lab.deliver()).outcome.kind, 'delivered', 'a probe may try');
});

test('releases a message if the limit drops to zero before its permit arrives', async t => {
	let give = (): void => undefined;
	const permitted = new Promise<void>(resolve => {
		give = resolve;
	});
	const lab = await startLab(t, [{}], {permit: () => permitted});
	const held = lab.deliver();
	const commands = () => lab.hosts[0]?.connections[0]?.commands ?? [];
	await waitFor('a session', () => commands().length > 0);
	lab.deliverer.allow('example.test', 0);
	give();
	t.like(await held, {outcome: {kind: 'released'}, attempts: [], sentAt: null});
	await waitFor('its end', () => lab.hosts[0]?.open() === 0);
	t.deepEqual(commands(), ['EHLO out.mail.test', 'QUIT']);
	t.is((await lab.deliver()).outcome.kind, 'delivered');
});

test('an expired message stops waiting for a connection and contacts no further mail server', async t => {
	const silent: FakeMxOptions = {greeting: {do: 'never'}};
	const hour = 3_600_000;
	let passed = 0;
	const clock = {now: () => Date.now() + passed, monotonic: () => performance.now()};
	const lab = await startLab(t, [silent, {}], {limit: 1, clock});
	const first = lab.deliver({endsAt: clock.now() + hour});
	await waitFor('the connection', () => lab.hosts[0]?.connections.length === 1);
	const second = await lab.deliver({endsAt: clock.now() + 500});
	t.deepEqual([second.outcome, second.attempts], [{kind: 'released'}, []]);
	// The first one's lifetime ends only now: on a busy machine it might have ended before there was a connection.
	passed = hour;
	lab.hosts[0]?.connections[0]?.drop();
	t.like((await first).outcome, {kind: 'deferred', category: 'network'});
	t.is(lab.hosts[1]?.connections.length, 0);
	t.deepEqual((await lab.deliver({endsAt: clock.now()})).outcome, {kind: 'released'});
	t.is(lab.hosts[0]?.connections.length, 1);
});

test('workspaces take turns for connections, whatever the priority of their messages', async t => {
	const pool = new ConnectionPool({maxSessions: 1, idleMs: 1000, quitMs: 1000});
	const order: string[] = [];
	const slots: Slot[] = [];
	const ask = async (workspaceId: string, site: string, isHigh: boolean) => {
		const wanted = {workspaceId, fits: () => true, waitMs: 60_000, precedence: {isHigh, leaves: 0 as const}};
		const slot = await pool.acquire(site, 5, wanted);
		order.push(workspaceId);
		slots.push(slot as Slot);
	};
	const asked = [ask('a', 'first', true)];
	for (let n = 0; n < 8; n++) {
		asked.push(ask('a', `site ${n}`, true));
	}
	asked.push(ask('b', 'first', false), ask('b', 'site 0', false));
	for (let served = 0; served < asked.length; served++) {
		await waitFor('a slot', () => slots.length > 0);
		slots.shift()?.release(null);
	}
	await Promise.all(asked);
	t.deepEqual(order.slice(0, 5), ['a', 'a', 'b', 'a', 'b']);
	await pool.close();
});

test('gives up one of too many silent sessions: of the workspace with the most, but not its oldest', async t => {
	const pool = new ConnectionPool({maxSessions: 16, idleMs: 1000, quitMs: 1000});
	const givenUp: string[] = [];
	const slots: Slot[] = [];
	const open = async (workspaceId: string, name: string) => {
		const slot = await pool.acquire(name, 1, {workspaceId, fits: () => true, waitMs: 60_000});
		slots.push(slot as Slot);
		slot?.fallSilent(() => givenUp.push(name));
		return slot;
	};
	await open('b', 'b1');
	const first = await open('a', 'a1');
	for (const name of ['a2', 'a3', 'a4', 'a5']) {
		await open('a', name);
	}
	t.deepEqual(givenUp, [], 'six may be silent');
	await open('a', 'a6');
	t.deepEqual(givenUp, ['a4'], 'the three oldest keep waiting');
	first?.noteReply();
	await open('b', 'b2');
	t.deepEqual(givenUp, ['a4'], 'a session that got a reply does not count');
	await open('b', 'b3');
	t.deepEqual(givenUp, ['a4', 'a6']);
	for (const slot of slots) {
		slot.release(null);
	}
	await pool.close();
});

test('gives up silent sessions with a responsive provider only if another provider needs one', async t => {
	const pool = new ConnectionPool({maxSessions: 4, idleMs: 60_000, quitMs: 1000});
	const acquire = (site: string) => pool.acquire(site, 4, {workspaceId: 'ws_1', fits: () => true, waitMs: 60_000});
	const connection = {lost: () => null, onceLost: () => undefined, quit: async () => undefined};
	(await acquire('relay'))?.release({connection} as unknown as Session);
	let givenUp = 0;
	for (let n = 0; n < 4; n++) {
		const slot = (await acquire('relay')) as Slot;
		slot.fallSilent(() => {
			givenUp++;
			slot.release(null);
		});
	}
	t.is(givenUp, 0, 'a relay that pauses is waited for');
	const other = await acquire('other');
	t.is(givenUp, 1);
	other?.release(null);
});
