import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {eventsOf, logged, prepareProgram} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {freePort} from '../helpers/free-port.ts';
import {waitFor} from '../helpers/wait.ts';

const host = 'mail.lab.test';
const second = 1000;
// Its renewal is due after two thirds of it, and the alert rings when less than a quarter is left.
const lifeMs = 120 * second;
const newsLimit = 180 * second;

type Row = {readonly state: string; readonly fault: string | null; readonly not_after: string | null};

test('alerts before a certificate expires while the CA is unreachable, and clears with the next one', async t => {
	t.timeout(600 * second);
	const [http, sink, dns] = await Promise.all([
		freePort(),
		startFakeMx(t),
		startFakeDns(t, {[host]: {a: ['127.0.0.1']}}),
	]);
	let port = 1;
	const ca = await startAcmeServer(t, () => ({host: '127.0.0.1', http: port, tls: 1}));
	const program = await prepareProgram(t, {
		MAILCTL_ACME: 'true',
		MAILCTL_ACME_DIRECTORY: ca.directory,
		MAILCTL_ACME_CA_FILE: 'ca.pem',
		MAILCTL_HOSTNAME: host,
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_HTTP_LISTEN: `127.0.0.1:${http}`,
		MAILCTL_ALERT_SMTP_URL: `smtp://127.0.0.1:${sink.port}?tls=none`,
	});
	writeFileSync(join(program.folder, 'ca.pem'), ca.ca);
	const daemon = await program.serve();
	await program.cli('alert', 'add', '--mail', 'ops@shop.example', '--on', 'certificate');
	const read = async () => (await program.cli<Row[]>('certificate', 'list'))[0];
	const state = async (expected: string) =>
		await waitFor(`the certificate is ${expected}`, async () => (await read())?.state === expected);
	const ends = async () => {
		const text = await (await fetch(`${daemon.url}/metrics`)).text();
		return (
			Number(/^mailctl_certificate_expires_seconds\{name="mail\.lab\.test"\} (\d+)$/m.exec(text)?.[1]) * second
		);
	};
	const doctor = async () => (await program.run('doctor')).stdout.replaceAll(/\s+/g, ' ');
	const subjects = () =>
		sink.received.map(({data}) => /^Subject: \[mailctl .*?\] (.*)\r$/m.exec(data.toString())?.[1]);

	await state('failed');
	t.regex(
		await doctor(),
		/WARN certificates mail\.lab\.test has no certificate yet: the CA cannot reach port 80 of mail\.lab\.test: /,
	);
	t.is(await ends(), Number.NaN);

	port = http;
	ca.behaviour.life = {from: Date.now(), until: Date.now() + lifeMs};
	await program.cli('certificate', 'renew');
	await logged(program, 'certificate_issued');
	ca.behaviour.away = true;
	const first = Date.parse((await read())?.not_after ?? '');
	t.is(await ends(), first);
	await waitFor('it rings', () => sink.received.length > 0, newsLimit);
	t.regex(sink.received[0]?.data.toString() ?? '', /^the certificate of mail\.lab\.test expires /m);
	await state('failed');
	t.regex(
		await doctor(),
		/FAIL certificates the certificate of mail\.lab\.test expire[sd] .{20}: the CA at 127\.0\.0\.1:\d+ does not respond/,
	);
	t.is(await ends(), first, 'the old one stays in use');

	Object.assign(ca.behaviour, {away: false, life: null});
	await program.cli('certificate', 'renew');
	await state('valid');
	t.is(await ends(), Date.parse((await read())?.not_after ?? ''));
	t.regex(await doctor(), /ok certificates mail\.lab\.test has a certificate valid until /);
	await waitFor('the end of the alert', () => sink.received.length > 1, newsLimit);
	t.log(subjects());
	t.deepEqual(
		subjects().map(subject => subject?.split(' ')[0]),
		['Began:', 'Ended:'],
	);
	t.is((await eventsOf(program, 'certificate_issued')).length, 2);
	t.is(await daemon.stop(), 0);
});
