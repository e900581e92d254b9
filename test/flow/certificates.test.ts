import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {eventsOf, logged, prepareProgram} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {freePort} from '../helpers/free-port.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const host = 'mail.lab.test';

test('resumes a certificate order after kill -9, and running listeners load each new certificate', async t => {
	const [http, inbound] = await Promise.all([freePort(), freePort()]);
	const dns = await startFakeDns(t, {[host]: {a: ['127.0.0.1']}});
	const ca = await startAcmeServer(t, () => ({host: '127.0.0.1', http, tls: 1}));
	const program = await prepareProgram(t, {
		MAILCTL_ACME: 'true',
		MAILCTL_ACME_EMAIL: 'admin@lab.test',
		MAILCTL_ACME_DIRECTORY: ca.directory,
		MAILCTL_ACME_CA_FILE: 'ca.pem',
		MAILCTL_HOSTNAME: host,
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_HTTP_LISTEN: `127.0.0.1:${http}`,
		MAILCTL_INBOUND_LISTEN: `127.0.0.1:${inbound}`,
		MAILCTL_SUBMISSION_LISTEN: '0.0.0.0:0',
	});
	writeFileSync(join(program.folder, 'ca.pem'), ca.ca);
	type Row = {name: string; state: string; issuer: string | null; fault: string | null; not_after: string | null};
	const list = () => program.cli<Row[]>('certificate', 'list');
	const submission = () => {
		const {submission: at} = JSON.parse(readFileSync(join(program.folder, 'data/daemon.json'), 'utf8'));
		return Number(at.split(':')[1]);
	};
	const session = async (port: number) => {
		const talk = await talkTo(t, port);
		return {talk, greeting: await talk.reply()};
	};
	const secured = async (port: number) => {
		const {talk} = await session(port);
		t.regex(await talk.say('EHLO peer.test'), /STARTTLS/);
		t.regex(await talk.say('STARTTLS'), /^220/);
		const socket = await talk.secure({ca: ca.authority.cert, servername: host});
		return {talk, serial: socket.getPeerX509Certificate()?.serialNumber, authorized: socket.authorized};
	};

	ca.behaviour.holding = true;
	const first = await program.serve();
	await waitFor('the CA works on the order', () => ca.orders[0]?.status === 'processing');
	t.like((await list())[0], {name: host, state: 'waiting', issuer: null, fault: null, not_after: null});
	t.regex((await session(submission())).greeting, /^421 4\.7\.0 No certificate yet/);
	await first.kill();

	const second = await program.serve();
	const plain = await session(inbound);
	t.notRegex(await plain.talk.say('EHLO peer.test'), /STARTTLS/);
	t.regex(await plain.talk.say('STARTTLS'), /^50\d/);
	await waitFor('the daemon orders again', () => ca.orders[1]?.status === 'processing');
	ca.behaviour.holding = false;
	await logged(program, 'certificate_issued');
	t.like((await list())[0], {name: host, state: 'valid', issuer: 'Lab CA', fault: null});
	t.regex(await plain.talk.say('NOOP'), /^250/, 'the old session goes on');
	t.regex(await plain.talk.say('EHLO peer.test'), /STARTTLS/);
	const former = await Promise.all([secured(inbound), secured(submission())]);
	t.deepEqual(
		former.map(({authorized}) => authorized),
		[true, true],
	);

	t.deepEqual(await program.cli('certificate', 'renew', `${host}.`), {renewing: [host]});
	await waitFor('the second certificate', async () => (await eventsOf(program, 'certificate_issued')).length === 2);
	const renewed = await Promise.all([secured(inbound), secured(submission())]);
	t.true(renewed.every(({authorized}) => authorized));
	t.not(renewed[0]?.serial, former[0]?.serial);
	t.is(renewed[0]?.serial, renewed[1]?.serial);
	for (const {talk} of former) {
		t.regex(await talk.say('NOOP'), /^250/, 'sessions with the former one go on');
	}
	t.deepEqual(
		ca.orders.map(({status, replaces}) => [status, replaces !== null]),
		[
			['processing', false],
			['valid', false],
			['valid', true],
		],
	);

	const asked = await fetch(`http://127.0.0.1:${http}/.well-known/acme-challenge/${'x'.repeat(32)}`);
	t.is(asked.status, 404);
	t.regex(
		await (await fetch(`http://127.0.0.1:${http}/metrics`)).text(),
		/^mailctl_certificate_expires_seconds\{name="mail\.lab\.test"\} \d{10}$/m,
	);
	t.regex(String(await program.cliBytes('certificate', 'show', `${host.toUpperCase()}.`)), /state +valid/);
	await t.throwsAsync(program.cliBytes('certificate', 'show', 'other.test'), {
		message: /other\.test has no certificate/,
	});
	t.regex((await program.run('doctor')).stdout, /ok +certificates +mail\.lab\.test has a certificate valid until/);

	// The certificate stays in use while the CA is away, also after a restart, by keys that were sealed anew.
	ca.behaviour.away = true;
	await program.cli('certificate', 'renew');
	await logged(program, 'certificate_failed');
	t.like((await list())[0], {state: 'failed'});
	t.regex((await program.run('doctor')).stdout, /but renewal failed: the CA at 127\.0\.0\.1:\d+ does not respond/);
	const {resealed} = await program.cli<{resealed: Record<string, number>}>('secrets', 'rotate');
	t.like(resealed, {certificates: 1, acme_accounts: 1});
	t.regex(String(await program.cliBytes('secrets', 'rotate')), /, 1 certificates, 1 CA accounts\.$/m);
	await second.stop();
	const third = await program.serve();
	t.is((await secured(inbound)).serial, renewed[0]?.serial);
	await third.stop();
	t.notRegex(await program.log(), /PRIVATE KEY|v1\.\d+\./);
});
