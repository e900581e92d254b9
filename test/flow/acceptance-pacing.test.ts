import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {Why} from '../../src/resources/messages/why.ts';
import type {Daemon, Program, Welcome} from '../helpers/daemon.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {holdMail} from '../helpers/held-mail.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {addShop} from '../helpers/second-shop.ts';
import {call, eachOf} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** The settings with a destinations file of the test. */
async function paced(t: ExecutionContext, entries: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
	const file = join(await temporaryFolder(t), 'destinations.json');
	writeFileSync(file, JSON.stringify(entries));
	return {MAILCTL_DESTINATIONS_FILE: file};
}

/** Sends in batches of a hundred; returns the ids in no particular order. */
async function sendMany({url}: Daemon, shop: Welcome, addresses: readonly string[]): Promise<string[]> {
	const {from, templateId} = shop;
	const ids: string[] = [];
	const batches = Array.from({length: Math.ceil(addresses.length / 100)}, (_, n) =>
		addresses.slice(100 * n, 100 * n + 100),
	);
	await eachOf(batches, 4, async batch => {
		const messages = batch.map(to => ({from, to, templateId}));
		const {status, body} = await call(`${url}/v1/messages/batch`, shop.key, {messages});
		const {data = []} = body as {data?: ReadonlyArray<{id: string; status: string}>};
		if (data.length !== batch.length || data.some(item => item.status !== 'accepted')) {
			throw new Error(`${status} ${JSON.stringify(body)}`);
		}
		ids.push(...data.map(({id}) => id));
	});
	return ids;
}

/** Queries what messages wait for until one of them waits for that, with that text. */
async function untilWaits(
	program: Program,
	ids: string | readonly string[],
	waitsFor: Why['waits_for'],
	detail: RegExp,
): Promise<Why> {
	const last = new Map<string, Why | undefined>();
	try {
		return await waitFor(`it waits for ${waitsFor}`, async () => {
			for (const id of [ids].flat()) {
				const [why] = await program.cli<Why[]>('queue', 'why', id);
				last.set(id, why);
				if (why?.waits_for === waitsFor && detail.test(why.detail)) {
					return why;
				}
			}
			return undefined;
		});
	} catch (error) {
		throw new Error(`${String(error)}\n${JSON.stringify([...last])}`);
	}
}

const recipientOf = (line: string) => /<([^>]*)>/.exec(line)?.[1] ?? '';
const users = (count: number, domain: string, name = 'user') =>
	Array.from({length: count}, (_, n) => `${name}${n}@${domain}`);

test.serial('1,000 messages to one provider never exceed its limits and do not delay another provider', async t => {
	// At this rate the backlog lasts nine seconds at least, in which mail to the other site goes.
	const caps = {connections: 3, mailsPerSession: 20, perMinute: 6000};
	const domains = ['a.example', 'b.example', 'c.example', 'd.example'];
	const mxHosts = ['mx1.big.example', 'mx2.big.example'];
	const taken: number[] = [];
	let most = 0;
	const big = {
		greeting() {
			most = Math.max(most, host('mx1.big.example').open() + host('mx2.big.example').open());
			return undefined;
		},
		mail() {
			taken.push(performance.now());
			return undefined;
		},
	};
	const seen = new Map<string, number>();
	const {program, host} = await startMailHosts(
		t,
		{
			'mx1.big.example': big,
			'mx2.big.example': big,
			'mx.other.example': {rcpt: line => void seen.set(recipientOf(line), performance.now())},
		},
		// The order in which a domain names them makes no other site of them.
		Object.fromEntries(
			domains.map((domain, n) => [
				domain,
				{mx: [mxHosts[n % 2], mxHosts[(n + 1) % 2]].map(name => [10, name as string])},
			]),
		) as never,
		await paced(t, {big: {mx: ['big.example'], ...caps}}),
	);
	const daemon = await program.serve();
	const {shop, send} = await clientOf(program, daemon);
	const arrived = () => host('mx1.big.example').count() + host('mx2.big.example').count();

	await sendMany(
		daemon,
		shop,
		users(1000, 'X').map((address, n) => address.replace('X', domains[n % 4] as string)),
	);
	const waits: number[] = [];
	/** The number of backlog messages that arrived while a message to the other provider was in transit. */
	const meanwhile: number[] = [];
	while (arrived() < 1000) {
		const to = `user${waits.length}@other.example`;
		const before = arrived();
		await send(to);
		const accepted = performance.now();
		const at = await waitFor(`${to} arrives`, () => seen.get(to));
		waits.push(at - accepted);
		meanwhile.push(arrived() - before);
	}
	const commands = mxHosts.map(host).flatMap(({connections}) => connections.map(each => each.commands));
	const mails = commands.map(lines => lines.filter(line => line.startsWith('MAIL')).length);
	t.true(most > 1 && most <= caps.connections, `${most} connections at once`);
	t.true(Math.max(...mails) <= caps.mailsPerSession, `mails by connection: ${mails}`);
	t.is(taken.length, 1000);
	t.is(maxOver(taken, caps.perMinute), 0, 'mails beyond the rate');
	t.true(waits.length >= 5, `${waits.length} mails to another site went one after the other meanwhile`);
	t.true(Math.max(...meanwhile) < 500, `mails of the backlog that went before each: ${meanwhile}`);
	t.log(`${most} connections, at most ${Math.max(...mails)} mails on one, ${waits.length} mails to the other site`);
	t.log(
		`they took ${Math.max(...waits).toFixed()} ms at most, the site ${(((taken.at(-1) ?? 0) - (taken[0] ?? 0)) / 1000).toFixed(1)} s`,
	);
	t.is(await daemon.stop(), 0);
});

/**
 * The number of messages beyond a rate with bursts of one second in any stretch of time. Messages sent earlier may
 * arrive late: three connections, with four messages in hand for each.
 */
function maxOver(times: readonly number[], perMinute: number): number {
	const most = perMinute / 60 + 12;
	let over = 0;
	for (const [from, began] of times.entries()) {
		for (let to = from; to < times.length; to++) {
			const allowed = most + (((times[to] as number) - began) * perMinute) / 60_000;
			over = Math.max(over, to - from + 1 - Math.ceil(allowed));
		}
	}
	return over;
}

test.serial('sends a code of another workspace ahead of a backlog of 1,000 messages', async t => {
	const order: string[] = [];
	const {waiting, dot, open} = holdMail();
	const {program, host} = await startMailHosts(
		t,
		{'mx.slow.example': {rcpt: line => void order.push(recipientOf(line)), dot, countOnly: true}},
		{},
		{
			...(await paced(t, {slow: {mx: ['slow.example'], connections: 2, startConnections: 2}})),
			// With more of them a mail that was claimed later may be rendered sooner.
			MAILCTL_MAKERS: '1',
		},
	);
	const first = await program.serve();
	const bulk = await clientOf(program, first);
	const other = await addShop(program, 'other');
	open(true);
	await bulk.until(await bulk.send('first@slow.example'), 'delivered');
	open(false);
	await sendMany(first, bulk.shop, users(1000, 'slow.example'));
	await waitFor('both connections are busy', () => waiting.length === 2);

	/** The number of backlog messages delivered, two at a time, before a code that was just accepted. */
	const before = async ({url}: Daemon, to: string) => {
		const {status} = await call(`${url}/v1/messages`, other.key, {
			from: other.from,
			to,
			templateId: other.templateId,
		});
		t.is(status, 202);
		const began = order.length;
		await waitFor(`${to} arrives`, () => {
			if (waiting.length === 2) {
				open(true);
				open(false);
			}
			return order.includes(to);
		});
		return order.indexOf(to) - began;
	};
	// Two connections, each with four mails in hand; as many may be claimed before the daemon has heard of the code.
	const passed: number[] = [];
	for (let n = 0; n < 5; n++) {
		passed.push(await before(first, `code${n}@slow.example`));
	}
	await first.kill();
	open(true);
	open(false);

	// The same where the backlog is found in the store.
	const second = await program.serve();
	await waitFor('both connections are busy again', () => waiting.length === 2);
	for (let n = 5; n < 10; n++) {
		passed.push(await before(second, `code${n}@slow.example`));
	}
	t.log(`mails of the backlog before each code: ${passed}`);
	t.true(Math.max(...passed) <= 16, `mails of the backlog before each code: ${passed}`);
	t.true(host('mx.slow.example').maxOpen() <= 2);
	t.true(host('mx.slow.example').count() < 800, 'the backlog is still there');
	await second.kill();
});

test.serial('halves the connections to a mail server that asks for less, and adds more as it accepts mail', async t => {
	const {waiting, dot, answer, open, taken} = holdMail();
	const {program} = await startMailHosts(
		t,
		{'mx.busy.example': {dot}},
		{},
		{
			...(await paced(t, {busy: {mx: ['busy.example'], connections: 8, startConnections: 8}})),
			MAILCTL_RETRY_SCHEDULE: '1s*',
		},
	);
	const daemon = await program.serve();
	const {send, shop, until} = await clientOf(program, daemon);

	await sendMany(daemon, shop, users(8, 'busy.example'));
	await waitFor('eight connections', () => waiting.length === 8);
	// All of them were begun before the first answer: it is one fault.
	answer('451 4.7.0 Too many mails from your address, try again later');
	// More than the site may claim at once, whichever of them it claims first: one of them waits.
	const more = await sendMany(daemon, shop, users(40, 'busy.example', 'more'));
	const some = more.filter((_, n) => n % 5 === 0);
	const last = await send('last@busy.example');
	await untilWaits(program, some, 'pace', /its servers are limited to 4 connections for now/);
	await waitFor('four connections', () => waiting.length >= 4);
	await untilWaits(program, some, 'pace', /its servers are limited to 4 connections for now/);
	t.is(waiting.length, 4);
	answer('421 4.3.2 Too many connections');
	await untilWaits(program, some, 'pace', /its servers are limited to 2 connections for now/);
	// No place is lent again before it is known how many there are; a third one is earned by three mails taken.
	for (const pair of ['the first two', 'the next two']) {
		await waitFor(pair, () => waiting.length === 2);
		answer('250 2.0.0 Ok: queued');
	}
	await untilWaits(program, some, 'pace', /its servers are limited to 3 connections for now/);
	await waitFor('three connections', () => waiting.length >= 3);
	await untilWaits(program, some, 'pace', /its servers are limited to 3 connections for now/);
	t.is(waiting.length, 3);

	open(true);
	await waitFor('all arrived', () => taken() === 49);
	await until(last, 'delivered');
	open(false);
	await sendMany(daemon, shop, users(8, 'busy.example', 'again'));
	await waitFor('eight connections again', () => waiting.length === 8);
	open(true);
	await waitFor('all arrived', () => taken() === 57);
	t.is(await daemon.stop(), 0);
});

test.serial('stops sending to a dead provider until one probe succeeds, even across a restart', async t => {
	let up = false;
	const {waiting, dot, open, taken} = holdMail();
	const {program, host} = await startMailHosts(
		t,
		{'mx.dead.example': {greeting: () => (up ? undefined : '421 4.3.2 not now'), dot}, 'mx.well.example': {}},
		{},
		{...(await paced(t, {dead: {mx: ['dead.example'], failures: 2}})), MAILCTL_RETRY_SCHEDULE: '5s,5m*'},
	);
	const {connections} = host('mx.dead.example');
	const first = await program.serve();
	const client = await clientOf(program, first);
	// Together: nobody is to be tried for the second time before the other one was.
	const ids = await sendMany(first, client.shop, ['one@dead.example', 'two@dead.example']);
	await Promise.all(ids.map(id => client.tried(id)));
	const last = await client.send('three@dead.example');
	ids.push(last);
	const suspended = await untilWaits(program, last, 'suspension', /backing off.*421 4\.3\.2 not now/);
	t.regex(suspended.mend ?? '', /mailctl queue resume dead\.example/);
	t.is(connections.length, 2, 'nobody asked it again');
	await client.until(await client.send('user@well.example'), 'delivered');
	t.is(await first.stop(), 0);

	up = true;
	const second = await program.serve();
	// It backs off for a minute. Until it is resumed the test does only what it needs.
	const still = await untilWaits(program, last, 'suspension', /backing off.*421 4\.3\.2 not now/);
	t.is(still.until, suspended.until);
	t.is(connections.length, 2, 'the next daemon leaves it alone too');
	await program.cli('queue', 'resume', 'dead.example');
	await waitFor('the probe', () => waiting.length === 1);
	await waitFor('the others wait for it', async () => {
		const whys = await program.cli<Why[]>('queue', 'why', ...ids);
		const said = /one message is testing whether that is over/;
		return whys.some(({waits_for, detail}) => waits_for === 'suspension' && said.test(detail));
	});
	t.is(connections.length, 3);
	open(true);
	await waitFor('all arrived', () => taken() === 3);
	const {until} = await clientOf(program, second);
	await Promise.all(ids.map(id => until(id, 'delivered')));
	t.is(await second.stop(), 0);
});

test.serial('suspends and resumes all messages to a domain on request', async t => {
	const seen: number[] = [];
	const {program, host} = await startMailHosts(t, {
		'mx.stop.example': {mail: () => void seen.push(performance.now())},
		'mx.go.example': {},
	});
	const daemon = await program.serve();
	const {send, until, status} = await clientOf(program, daemon);
	const arrived = () => host('mx.stop.example').count();
	await until(await send('first@stop.example'), 'delivered');
	await program.cli('queue', 'suspend', 'stop.example', '--reason', 'moving');
	const stopped = performance.now();
	const ids: string[] = [];
	/** Sends a message to each, first to the suspended one; returns whether that one is still waiting. */
	const stays = async () => {
		const id = await send(`user${ids.length}@stop.example`);
		ids.push(id);
		await until(await send(`user${ids.length}@go.example`), 'delivered');
		return (await status(id)) === 'accepted';
	};
	await waitFor('mail stays', stays);
	await untilWaits(
		program,
		ids.at(-1) ?? '',
		'operator',
		/An operator suspended all mail to stop\.example.*: moving/,
	);
	t.log(`the last one left ${Math.round((seen.at(-1) ?? 0) - stopped)} ms after the command`);

	for (const id of ids) {
		await waitFor('what was on its way is there', async () => ['accepted', 'delivered'].includes(await status(id)));
	}
	const went = arrived();
	for (let n = 0; n < 5; n++) {
		t.true(await stays());
	}
	t.is(arrived(), went, 'from then on nothing leaves');

	await program.cli('queue', 'resume', 'stop.example');
	const resumed = performance.now();
	await waitFor('all arrived', () => arrived() === ids.length + 1);
	t.log(`after resume the last one left in ${Math.round((seen.at(-1) ?? 0) - resumed)} ms`);
	t.is(await daemon.stop(), 0);
});

test.serial('suspends, slows or shortens sessions according to replies listed in the destinations file', async t => {
	const reactions = [
		{text: 'come back* tomorrow', suspend: '2h'},
		{text: 'slow down', slow: {perMinute: 1, for: '30m'}},
		{text: 'only three', mailsPerSession: 3},
	];
	const {program, host} = await startMailHosts(
		t,
		{
			'mx.later.example': {rcpt: ['450 4.2.0 please come back, dear friend, tomorrow']},
			'mx.slower.example': {rcpt: ['450 4.2.0 Slow down, please']},
			'mx.shorter.example': {
				rcpt: (_line, {commands}) =>
					commands.filter(line => line.startsWith('MAIL')).length > 3 ? '451 4.5.3 only three' : undefined,
			},
		},
		{},
		{
			...(await paced(t, {odd: {domains: ['example'], connections: 1, startConnections: 1, reactions}})),
			MAILCTL_RETRY_SCHEDULE: '1s,4h*',
		},
	);
	const daemon = await program.serve();
	const {send, status, tried, shop} = await clientOf(program, daemon);
	const [later, slower] = [await send('user@later.example'), await send('user@slower.example')];
	await Promise.all([tried(later), tried(slower)]);
	const [after, less] = [await send('more@later.example'), await send('more@slower.example')];
	await sendMany(daemon, shop, users(20, 'shorter.example'));

	const suspended = await untilWaits(program, after, 'suspension', /dear friend, tomorrow/);
	t.true(Date.parse(suspended.until ?? '') - Date.now() > 3_600_000);
	t.is(host('mx.later.example').count(), 0);

	await waitFor('one a minute', () => host('mx.slower.example').count() === 1);
	const waiting = await waitFor('it is recorded which', async () => {
		const states = await Promise.all([slower, less].map(status));
		return states.includes('delivered') && (states[0] === 'delivered' ? less : slower);
	});
	const slow = await untilWaits(program, waiting, 'rate', /its servers are limited to 1 message per minute for now/);
	t.true(Date.parse(slow.until ?? '') - Date.now() > 600_000);
	t.is(host('mx.slower.example').count(), 1);

	await waitFor('all arrived', () => host('mx.shorter.example').count() === 20);
	const mails = host('mx.shorter.example').connections.map(
		({commands}) => commands.filter(line => line.startsWith('MAIL')).length,
	);
	// What was in hand for the first session did not know yet.
	t.is(mails.filter(count => count > 3).length, 1, `mails by connection: ${mails}`);
	t.true((mails[0] ?? 0) <= 8, `mails by connection: ${mails}`);
	t.is(await daemon.stop(), 0);
});
