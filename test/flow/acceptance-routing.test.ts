import {networkInterfaces} from 'node:os';
import test from 'ava';
import {loopbackAddress} from '../helpers/loopback.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call} from '../helpers/shop.ts';

const hasIpv6 = Object.values(networkInterfaces()).some(list => list?.some(({address}) => address === '::1'));
const equal = ['mx1.equal.example', 'mx2.equal.example', 'mx3.equal.example'];

/** Refuses the first attempt of each recipient. */
function greylist() {
	const seen = new Set<string>();
	return (line: string) => {
		const known = seen.has(line);
		seen.add(line);
		return known ? undefined : '451 4.7.1 Greylisted, please try again later';
	};
}

const busy = {mail: '451 4.3.0 try later'};
const busyHosts = Array.from({length: 5}, (_, n) => `mx${n}.busy.example`);
const greyHosts = Array.from({length: 5}, (_, n) => `mx${n}.grey.example`);
const alive = loopbackAddress();

const lab = oncePerFile(test, async scope => {
	const hosts = await startMailHosts(
		scope,
		{
			'mx1.order.example': {},
			'mx2.order.example': {},
			'mx1.down.example': {greeting: '554 5.3.2 not now'},
			'mx2.down.example': {},
			'plain.example': {},
			'mx.xn--bcher-kva.example': {},
			...Object.fromEntries(equal.map(name => [name, {rcpt: greylist()}])),
			'mx.eight.example': {host: alive},
			...Object.fromEntries(busyHosts.map((name, n) => [name, n < 4 ? busy : {}])),
			...Object.fromEntries(greyHosts.map((name, n) => [name, n < 4 ? {rcpt: '451 4.7.1 Greylisted'} : {}])),
			'mx.inside.example': {},
			...(hasIpv6 && {'mx.six.example': {host: '::1'}}),
		},
		{
			'order.example': {
				mx: [
					[20, 'mx2.order.example'],
					[10, 'MX1.Order.Example'],
				],
			},
			'down.example': {
				mx: [
					[1, 'mx1.down.example'],
					[2, 'mx2.down.example'],
				],
			},
			'equal.example': {mx: equal.map(name => [10, name] as const)},
			'null.example': {mx: [[0, '.']]},
			'fails.example': {a: ['127.0.0.1'], fail: {MX: 'servfail'}},
			'nowhere.example': {mx: [[10, 'unknown.nowhere.example']]},
			'unknown.nowhere.example': {},
			'mx.eight.example': {a: [...Array.from({length: 7}, loopbackAddress), alive]},
			'busy.example': {mx: busyHosts.map((name, n) => [10 * n, name] as const)},
			'grey.example': {mx: greyHosts.map(name => [10, name] as const)},
			'mapped.example': {mx: [[10, 'mx.mapped.example']]},
			'mx.mapped.example': {
				a: ['10.0.0.1', '169.254.169.254'],
				aaaa: ['::ffff:127.0.0.1', '2002:7f00:1::1', '64:ff9b::7f00:1'],
			},
			'mx.six.example': {aaaa: ['::1']},
			'six.example': {aaaa: ['::1']},
		},
		{MAILCTL_RETRY_SCHEDULE: '500ms,1s*'},
	);
	const daemon = await hosts.program.serve();
	return {...hosts, daemon, ...(await clientOf(hosts.program, daemon))};
});

test.serial('routes by MX order, and handles null MX, missing MX, failing DNS and missing domains', async t => {
	const {program, dns, host, send, until, show, tried, status} = lab();
	const suppressed = async (address: string) =>
		(await program.cli<{suppressed: boolean}>('suppression', 'check', address)).suppressed;

	const [order, down, plain, none, gone, nowhere, fails] = (await Promise.all(
		['order', 'down', 'plain', 'null', 'gone', 'nowhere', 'fails'].map(name => send(`user@${name}.example`)),
	)) as [string, string, string, string, string, string, string];
	const many = await Promise.all(Array.from({length: 30}, (_, n) => send(`user${n}@equal.example`)));

	await until(order, 'delivered');
	t.is(host('mx1.order.example').count(), 1, 'the better MX');
	await until(down, 'delivered');
	const [first, second] = (await show(down)).recipients[0]?.attempts ?? [];
	t.like(first, {host: 'mx1.down.example', phase: 'greeting', code: 554});
	t.like(second, {host: 'mx2.down.example', phase: 'dot', code: 250});
	await until(plain, 'delivered');
	t.is(host('plain.example').count(), 1, 'without an MX the domain itself');

	await until(await send('user@bücher.example'), 'delivered');
	t.is(host('mx.xn--bcher-kva.example').received[0]?.to[0], 'user@xn--bcher-kva.example');

	await until(none, 'bounced');
	t.like((await show(none)).events.at(-1)?.detail, {
		type: 'permanent',
		category: 'unknown_domain',
		enhanced: '5.1.10',
	});
	t.true(await suppressed('user@null.example'));

	await until(gone, 'bounced');
	const asked = (await show(gone)).recipients[0]?.attempts.map(({enhanced}) => enhanced);
	t.deepEqual(asked, ['4.1.2', '5.1.2'], 'confirmed by a second answer');
	t.true(await suppressed('user@gone.example'));

	await until(nowhere, 'bounced');
	t.deepEqual(
		(await show(nowhere)).recipients[0]?.attempts.map(({enhanced}) => enhanced),
		['4.4.4', '5.4.4'],
	);
	t.false(await suppressed('user@nowhere.example'));

	t.like((await tried(fails, 2)).at(-1), {phase: 'route', enhanced: '4.4.3'});
	t.is(await status(fails), 'queued', 'never the address of a domain whose MX nobody knows');
	dns.zone['fails.example'] = {mx: [[10, 'mx1.order.example']]};
	await until(fails, 'delivered');

	// A copy's next try begins where the first one did: that host alone knows it.
	await until(many, 'delivered');
	const counts = equal.map(name => host(name).count());
	t.is(
		counts.reduce((sum, count) => sum + count),
		30,
	);
	const asks = equal.flatMap(name => host(name).connections).flatMap(({commands}) => commands);
	t.is(
		asks.filter(line => line.startsWith('RCPT')).length,
		90,
		'two hosts at the first try, the first of them again',
	);
	const senders = asks.filter(line => line.startsWith('MAIL')).map(line => /<([^>]*)>/.exec(line)?.[1]);
	t.is(new Set(senders).size, 30, 'and with the same envelope');
	t.true(
		counts.every(count => count > 0),
		`shared out: ${counts}`,
	);
});

test.serial('tries every address and every MX while most refuse connections or reply 451', async t => {
	const {host, send, until, shop, daemon} = lab();
	const ids = await Promise.all(
		['eight', 'busy', 'grey'].map(name =>
			Promise.all(Array.from({length: 20}, (_, n) => send(`u${n}@${name}.example`))),
		),
	);
	await until(ids.flat(), 'delivered');
	t.is(host('mx.eight.example').count(), 20);
	t.is(host('mx4.busy.example').count(), 20);
	t.is(host('mx4.grey.example').count(), 20);
	const asked = await Promise.all(
		(ids[1] ?? []).map(async id => {
			const {body} = await call(`${daemon.url}/v1/messages/${id}/attempts`, shop.key);
			const hostNames = (body as {data: Array<{host: string}>}).data.map(attempt => attempt.host);
			return [...new Set(hostNames)].toSorted().join();
		}),
	);
	// A copy may begin with a session that another one has left, and needs fewer hosts. The first copy cannot.
	t.true(asked.includes(busyHosts.join()), asked.join('\n'));
});

test.serial('delivers to a mail server with only an IPv6 address if IPv6 is on', async t => {
	if (!hasIpv6) {
		t.log('not run here: no IPv6 on this machine');
		t.pass();
		return;
	}
	const {program, host, daemon, send, until} = lab();
	await until(await send('user@six.example'), 'delivered');
	t.is(host('mx.six.example').count(), 1);
	t.is(await daemon.stop(), 0);
	const off = await program.serve({MAILCTL_IPV6: 'false', MAILCTL_RETRY_SCHEDULE: '500ms'});
	const without = await clientOf(program, off);
	const id = await without.send('other@six.example');
	await without.until(id, 'bounced');
	t.is(host('mx.six.example').connections.length, 1);
	t.is(await off.stop(), 0);
});

test.serial('never connects to an MX with a private address', async t => {
	const {program, host, daemon} = lab();
	await daemon.stop();
	const guarded = await program.serve({MAILCTL_ALLOW_PRIVATE_MX: 'false'});
	const {send, until, show} = await clientOf(program, guarded);
	for (const to of ['user@inside.example', 'user@mapped.example']) {
		const id = await send(to);
		await until(id, 'bounced');
		t.like((await show(id)).events.at(-1)?.detail, {type: 'permanent', category: 'network', enhanced: '5.4.4'});
		t.like(await program.cli('suppression', 'check', to), {suppressed: false});
	}
	t.is(host('mx.inside.example').connections.length, 0);
	t.is(await guarded.stop(), 0);
});
