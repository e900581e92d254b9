import {randomBytes, X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import {readFileSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {type AddressInfo, connect as connectTcp, createServer as createTcpServer} from 'node:net';
import {join} from 'node:path';
import {connect} from 'node:tls';
import test from 'ava';
import createKnex from 'knex';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {type Daemon, eventsOf, type Program, prepareProgram} from '../helpers/daemon.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {waitFor} from '../helpers/wait.ts';

const address = '127.0.0.1';
const names = ['mail.lab.test', 'www.lab.test'];
const [mail = ''] = names;
const second = 1000;
// A node that dies loses its turn after a minute, and the other looks every 15 s.
const takeOverLimit = 180 * second;

type Row = {readonly name: string; readonly state: string};
type Node = {readonly program: Program; daemon: Daemon; isAsked: boolean};

/** The port that the daemon chose for a listener. */
function portOf({folder}: Program, listener: 'http' | 'https' | 'redirect'): number {
	const at = JSON.parse(readFileSync(join(folder, 'data/daemon.json'), 'utf8'))[listener];
	return Number(at.slice(at.lastIndexOf(':') + 1));
}

/** The certificate that a node presents in a handshake; null: it has none for the name. */
async function shown({program}: Node, servername: string, protocol = 'http/1.1'): Promise<Buffer | null> {
	const options = {host: address, port: portOf(program, 'https'), servername, ALPNProtocols: [protocol]};
	const socket = connect({...options, rejectUnauthorized: false});
	try {
		await once(socket, 'secureConnect');
		return socket.getPeerX509Certificate()?.raw ?? null;
	} catch {
		return null;
	} finally {
		socket.destroy();
	}
}

test('two nodes on one PostgreSQL: one orders certificates, both serve them, a dead one is replaced', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600 * second);
	const location = await newLocation(t, 'postgres');
	const url = 'url' in location ? location.url : '';
	const database = createKnex({client: 'pg', connection: url, pool: {min: 0, max: 1}});
	t.teardown(() => database.destroy());
	const dns = await startFakeDns(t, Object.fromEntries(names.map(name => [name, {a: [address]}])));
	const nodes: Node[] = [];
	const asked = () => nodes.filter(({isAsked}) => isAsked);

	// Stands where the CA comes: it asks both listeners of every node, and passes on what all of them say.
	const proofs: string[] = [];
	const front = createServer(async ({url: path = '', headers}, response) => {
		const ports = asked().flatMap(({program}) => [portOf(program, 'http'), portOf(program, 'redirect')]);
		const answers = await Promise.all(
			ports.map(async port => {
				const answer = await fetch(`http://${address}:${port}${path}`, {redirect: 'manual'});
				return `${answer.status} ${await answer.text()}`;
			}),
		);
		const isAgreed = new Set(answers).size === 1;
		proofs.push(`http-01 ${headers.host} by ${isAgreed ? ports.length : answers.join()}`);
		response.writeHead(isAgreed ? Number(answers[0]?.slice(0, 3)) : 500).end(answers[0]?.slice(4));
	});
	// The same for proofs by TLS, a place for each name. Each node has a key of its own for it, and the digest of them
	// all.
	const mark = Buffer.from('06082b0601050507011f', 'hex');
	const tlsFront = (name: string) =>
		createTcpServer(async socket => {
			const certificates = await Promise.all(asked().map(node => shown(node, name, 'acme-tls/1')));
			const digests = certificates.map(one =>
				one?.subarray(one.indexOf(mark), one.indexOf(mark) + 50).toString('hex'),
			);
			proofs.push(`tls-alpn-01 ${name} by ${new Set(digests).size === 1 ? digests.length : digests.join()}`);
			const last = asked().at(-1) as Node;
			const way = connectTcp({host: address, port: portOf(last.program, 'https')});
			socket.pipe(way).pipe(socket);
			socket.on('error', () => way.destroy());
			way.on('error', () => socket.destroy());
		});
	const [http = 0, ...tls] = await Promise.all(
		[front, ...names.map(tlsFront)].map(async server => {
			server.listen(0, address);
			await once(server, 'listening');
			t.teardown(() => server.close());
			return (server.address() as AddressInfo).port;
		}),
	);
	const ca = await startAcmeServer(t, name => ({host: address, http, tls: tls[names.indexOf(name)] ?? 0}));
	const settings = {
		MAILCTL_DATABASE_URL: url,
		MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		MAILCTL_HOSTNAME: mail,
		MAILCTL_PUBLIC_URL: 'https://www.lab.test',
		MAILCTL_ACME: 'true',
		MAILCTL_ACME_DIRECTORY: ca.directory,
		MAILCTL_ACME_CA_FILE: 'ca.pem',
		MAILCTL_HTTPS_LISTEN: `${address}:0`,
		MAILCTL_HTTP_REDIRECT_LISTEN: `${address}:0`,
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MAKERS: '1',
	};
	const programs = await Promise.all([prepareProgram(t, settings), prepareProgram(t, settings)]);
	ca.behaviour.away = true;
	await Promise.all(
		programs.map(async program => {
			writeFileSync(join(program.folder, 'ca.pem'), ca.ca);
			nodes.push({program, daemon: await program.serve(), isAsked: true});
		}),
	);
	const [one, two] = nodes as [Node, Node];
	const leaf = (chain: string) => new X509Certificate(chain).raw.toString('hex');
	const newest = (name: string) =>
		leaf(ca.orders.findLast(order => order.name === name && order.status === 'valid')?.chain ?? '');
	/** Waits until nodes present the certificate last issued for each name. */
	const served = async (of: readonly Node[] = nodes) =>
		await waitFor('the newest certificates at every node', async () => {
			const pairs = of.flatMap(node => names.map(name => [node, name] as const));
			const seen = await Promise.all(pairs.map(async ([node, name]) => [await shown(node, name), newest(name)]));
			return seen.every(([has, wants]) => has !== null && has?.toString('hex') === wants);
		});
	const ordered = (from = 0) =>
		ca.orders
			.slice(from)
			.map(({name, status}) => `${name} ${status}`)
			.toSorted();
	const valid = names.map(name => `${name} valid`);
	const renewed = async (from: number) =>
		await waitFor(
			'a certificate for each name',
			() => ordered(from).filter(state => state.endsWith('valid')).length === 2,
		);

	// Both find the CA away, so that both are there when the first order is made.
	await waitFor(
		'failed orders',
		async () =>
			(await one.program.cli<Row[]>('certificate', 'list')).filter(({state}) => state === 'failed').length === 2,
	);
	t.is(await shown(one, mail), null);
	ca.behaviour.away = false;
	await one.program.cli('certificate', 'renew');
	await renewed(0);
	await served();
	t.deepEqual(ordered(), valid);
	t.deepEqual(
		proofs.toSorted(),
		names.map(name => `http-01 ${name} by 4`),
	);

	// An operator's renewal gives certificates of a short life, which the daemons renew by themselves: one of the two.
	// The CA goes by its orders: how long a command or a look takes does not matter.
	Object.defineProperties(ca.behaviour, {
		life: {
			get: () =>
				ca.orders.length > 4 ? null : {from: Date.now() - 60 * second, until: Date.now() + 75 * second},
		},
		offers: {get: () => [ca.orders.length < 4 ? 'http-01' : 'tls-alpn-01']},
	});
	await two.program.cli('certificate', 'renew');
	await renewed(4);
	await served();
	t.deepEqual(ordered(2), [...valid, ...valid].toSorted());
	t.true(ca.orders.slice(2).every(({replaces}) => replaces !== null));
	t.deepEqual(
		proofs.slice(-2).toSorted(),
		names.map(name => `tls-alpn-01 ${name} by 2`),
	);

	// Only the first can take the next order, for the other one is frozen. It dies while the CA works on it.
	ca.behaviour.holding = true;
	two.daemon.signal('SIGSTOP');
	two.isAsked = false;
	await one.program.cli('certificate', 'renew', mail);
	await waitFor('the CA works on the order', () => ca.orders[6]?.status === 'processing');
	two.daemon.signal('SIGCONT');
	const turn = async () => (await database('certificates').where({name: mail}).first()).taken_until;
	const begun = await turn();
	await waitFor(
		'the order to go on for longer than a look of the other node',
		async () => (await turn()) > begun,
		takeOverLimit,
	);
	t.is(ca.orders.length, 7);
	await one.daemon.kill();
	Object.assign(one, {isAsked: false});
	two.isAsked = true;
	t.is((await shown(two, mail))?.toString('hex'), newest(mail), 'the old certificate stays in use');
	await waitFor('the other node orders', () => ca.orders[7]?.status === 'processing', takeOverLimit);
	t.true((await turn()) > begun);
	ca.behaviour.holding = false;
	await waitFor('its certificate', () => ca.orders[7]?.status === 'valid');
	await served([two]);
	one.daemon = await one.program.serve();
	await served();
	t.deepEqual(ordered(6), [`${mail} processing`, `${mail} valid`]);
	const [account] = await database('acme_accounts');
	t.true(ca.orders.every(order => order.account === account?.url));
	t.deepEqual(await Promise.all(nodes.map(({daemon}) => daemon.stop())), [0, 0]);
	const issued = await Promise.all(programs.map(program => eventsOf(program, 'certificate_issued')));
	t.is(issued.flat().length, 7, 'each certificate is logged by the node that ordered it');
});
