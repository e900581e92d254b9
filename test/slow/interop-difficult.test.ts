import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import knex, {type Knex} from 'knex';
import {makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, type Program} from '../helpers/daemon.ts';
import {type FakeConnection, type Received, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {startPostfix} from '../helpers/peers/postfix.ts';
import {startPostgrey} from '../helpers/peers/postgrey.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Lab, startLab} from './interop-lab.ts';

const domain = 'mail.example';
const hostname = `mx.${domain}`;

test.serial('delivers a message greylisted by postgrey on a later attempt', async t => {
	const addresses = ['one', 'two', 'three'].map(user => `${user}@${domain}`);
	const postgrey = await startPostgrey(t, 3);
	const mx =
		postgrey && (await startPostfix(t, {hostname, domains: [domain], users: addresses, policyPort: postgrey.port}));
	if (!mx) {
		return;
	}

	const lab = await startLab(t, mx.port, {[domain]: '127.0.0.1'}, {MAILCTL_RETRY_SCHEDULE: '5s*'});
	const ids: string[] = [];
	for (const to of addresses) {
		ids.push(await lab.send(lab.letter(to)));
	}

	for (const id of ids) {
		await lab.untilStatus(id, 'delivered');
	}

	await waitFor('all are stored', async () => (await mx.count()) === addresses.length);
	const refused = [
		...(await mx.log()).matchAll(/reject: RCPT from (\S+): 450 4\.2\.0 .*Greylisted.* from=<(\S+)> to=<(\S+)>/g),
	];
	const taken = [...(await mx.log()).matchAll(/: client=(\S+)/g)].map(match => match[1]);
	for (const mail of await mx.mails()) {
		const first = refused.find(match => match[3] === mail.deliveredTo);
		t.is(first?.[2], mail.returnPath, 'the same envelope sender');
		t.true(
			taken.every(client => client === first?.[1]),
			'from the same address',
		);
	}

	const {attempts} = (await lab.show(ids[0] ?? '')).recipients[0] ?? {attempts: []};
	t.like(attempts[0], {n: 1, phase: 'rcpt', code: 450, enhanced: '4.2.0'});
	t.like(attempts.at(-1), {phase: 'dot', code: 250});
	t.is(new Set(attempts.map(({ip}) => ip)).size, 1, 'the same host');
	t.is(await lab.daemon.stop(), 0);
	const categories = await inStore(lab.program, database => database('recipients').distinct().pluck('last_category'));
	t.deepEqual(categories, ['greylist']);
});

test.serial('tolerates tarpits within the timeouts without delaying others', async t => {
	const slow = await startPostfix(t, {
		hostname,
		domains: ['slow.example'],
		more: [
			'smtpd_delay_reject = no',
			...['client', 'sender', 'data', 'end_of_data'].map(step => `smtpd_${step}_restrictions = sleep 1`),
		],
	});
	if (!slow) {
		return;
	}

	const {port} = slow;
	const tls = makeCertificate('mx.quick.example');
	const quick = await startFakeMx(t, {host: loopbackAddress(), port, tls});
	const endless = await startFakeMx(t, {
		host: loopbackAddress(),
		port,
		greeting: (_, connection) => drip(t, connection, '220-one moment please\r\n'),
	});
	const bytewise = await startFakeMx(t, {
		host: loopbackAddress(),
		port,
		mail: (_, connection) => drip(t, connection, '2'),
	});
	const lab = await startLab(
		t,
		port,
		{
			'slow.example': '127.0.0.1',
			'quick.example': quick.host,
			'endless.example': endless.host,
			'bytewise.example': bytewise.host,
		},
		{
			MAILCTL_SMTP_TIMEOUTS: 'greeting=5s,mail=5s',
			MAILCTL_RETRY_SCHEDULE: '5s*',
			MAILCTL_MAX_SESSIONS: '16',
		},
	);
	const stuck = await sendMany(lab, ['endless.example', 'bytewise.example'], 20);
	const patient = await sendMany(lab, ['slow.example'], 2);
	await waitFor('the tarpits hold sessions', () => endless.open() > 0 && bytewise.open() > 0);

	const healthy = await sendMany(lab, ['quick.example'], 10);
	for (const id of healthy) {
		await lab.untilStatus(id, 'delivered');
	}

	const tried = new Set((await eventsOf(lab.program, 'deferred')).map(({message_id: id}) => id));
	t.true(tried.size < stuck.length / 2, `${tried.size} of ${stuck.length} were tried before`);

	t.is(endless.count() + bytewise.count(), 0);
	for (const id of patient) {
		await lab.untilStatus(id, 'delivered');
	}

	for (const {phase, host} of [
		{phase: 'greeting', host: 'mx.endless.example'},
		{phase: 'mail', host: 'mx.bytewise.example'},
	]) {
		await waitFor(`${host} is given up`, async () => {
			const deferred = (await eventsOf(lab.program, 'deferred')).filter(({mx}) => mx === host);
			const [recipient] = deferred[0] ? (await lab.show(String(deferred[0].message_id))).recipients : [];
			const given = recipient?.attempts.find(attempt => attempt.phase === phase && attempt.host === host);
			return given && recipient?.next_attempt_at && /took longer than 5000 ms/.test(given.reply);
		});
	}

	t.is(await lab.statusOf(stuck[0] ?? ''), 'queued');
	await lab.daemon.kill();
});

/** Sends a little now and then and never finishes. */
function drip(t: ExecutionContext, connection: FakeConnection, what: string) {
	const timer = setInterval(() => connection.say(what), 300);
	t.teardown(() => clearInterval(timer));
	return {do: 'never'} as const;
}

async function sendMany(lab: Lab, domains: readonly string[], each: number): Promise<string[]> {
	const ids: string[] = [];
	for (let n = 0; n < each; n++) {
		for (const domain of domains) {
			ids.push(await lab.send(lab.letter(`user${n}@${domain}`)));
		}
	}

	return ids;
}

test.serial('after a connection lost at the final dot, retries the message in five minutes and flags it', async t => {
	let dots = 0;
	// It takes the mail and is gone before it can say so.
	const mx = await startFakeMx(t, {
		host: loopbackAddress(),
		tls: makeCertificate(hostname),
		dot(_, connection) {
			dots += 1;
			if (dots === 1) {
				connection.drop();
			}

			return undefined;
		},
	});
	const lab = await startLab(t, mx.port, {[domain]: mx.host});
	const id = await lab.send(lab.letter(`user@${domain}`));
	const started = Date.now();
	await waitFor('the first try is over', async () => (await eventsOf(lab.program, 'deferred')).length === 1);
	const [recipient] = (await lab.show(id)).recipients;
	t.is(recipient?.attempts.length, 1);
	t.like(recipient?.attempts[0], {phase: 'dot', code: null});
	t.true(
		Date.parse(recipient?.next_attempt_at ?? '') >= started + 4.5 * 60_000,
		`next try ${recipient?.next_attempt_at}`,
	);

	await lab.program.cli('queue', 'flush', id);
	await lab.untilStatus(id, 'delivered');
	t.is(mx.count(), 2);
	const [first, second] = mx.received;
	t.is(second?.from, first?.from);
	for (const name of ['Message-ID', 'Date', 'X-Mailctl-Ref']) {
		t.truthy(header(first, name));
		t.is(header(second, name), header(first, name), name);
	}

	const {events} = await lab.show(id);
	t.is(events.find(({type}) => type === 'delivered')?.detail.possible_duplicate, true);
	t.is(await lab.daemon.stop(), 0);
});

function header(mail: Received | undefined, name: string): string | undefined {
	return new RegExp(`^${name}: (.*)$`, 'im').exec(mail?.data.toString('latin1') ?? '')?.[1];
}

async function inStore<T>(program: Program, work: (database: Knex) => PromiseLike<T>): Promise<T> {
	const filename = join(program.folder, 'data/mailctl.db');
	const database = knex({client: 'sqlite3', connection: {filename}, useNullAsDefault: true});
	try {
		return await work(database);
	} finally {
		await database.destroy();
	}
}
