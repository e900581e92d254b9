import {execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {chmod, copyFile, cp, mkdir, mkdtemp, readFile, rm, symlink} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {parse} from 'yaml';
import {foldersBeside} from '../helpers/beside.ts';
import {freePort} from '../helpers/free-port.ts';
import {findPeer} from '../helpers/peers/chroot.ts';
import {waitFor} from '../helpers/wait.ts';

const run = promisify(execFile);

type Step = {readonly verb: string; readonly text: string};

/** The steps of the image's last stage. */
async function stepsOf(file: string): Promise<Step[]> {
	const lines = (await readFile(file, 'utf8')).split('\n').filter(line => line !== '' && !line.startsWith('#'));
	const steps = lines.map(line => ({verb: line.split(' ')[0] ?? '', text: line.slice(line.indexOf(' ') + 1)}));
	return steps.slice(steps.findLastIndex(({verb}) => verb === 'FROM'));
}

/** The package as `npm install --global --prefix` lays it out (as in slow/install.test.ts). */
async function layOut(prefix: string): Promise<void> {
	const program = path.join(prefix, 'lib/node_modules/mailctl');
	for (const one of ['bin', 'config', 'dist/bundle', 'package.json', ...(await foldersBeside())]) {
		await cp(one, path.join(program, one), {recursive: true});
	}
	await mkdir(path.join(prefix, 'bin'));
	await symlink('../lib/node_modules/mailctl/bin/mailctl.js', path.join(prefix, 'bin/mailctl'));
}

test('the last stage of the Dockerfile, run in a bare Debian, serves, is healthy and sends', async t => {
	const debian = await findPeer(t, 'debian');
	if (debian === null) {
		return;
	}
	const parent = await mkdtemp(path.resolve(`${debian.folder}-test-`));
	t.teardown(() => rm(parent, {recursive: true, force: true, maxRetries: 10}));
	const root = path.join(parent, 'root');
	await run('cp', ['-a', debian.folder, root]);
	// What the base image has.
	await copyFile(process.execPath, path.join(root, 'usr/local/bin/node'));
	await chmod(path.join(root, 'usr/local/bin/node'), 0o755);

	const env: Record<string, string> = {PATH: '/usr/local/bin:/usr/bin:/bin'};
	let [user, folder, entry, command, healthy]: [string, string, string[], string[], string[]] = [
		'0:0',
		'/',
		[],
		[],
		[],
	];
	const shell = 'cd "$1"; shift; exec "$@"';
	const inside = (words: readonly string[]) => {
		const [uid, gid] = user.split(':');
		const person = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
		return [root, ...person, 'sh', '-c', shell, 'sh', folder, ...words];
	};
	for (const {verb, text} of await stepsOf('Dockerfile')) {
		switch (verb) {
			case 'ENV':
				for (const pair of text.split(' ')) {
					const [name = '', value = ''] = pair.split('=');
					env[name] = value;
				}
				break;
			case 'COPY':
				t.is(text, '--from=pack /opt/mailctl /opt/mailctl');
				await layOut(path.join(root, 'opt/mailctl'));
				break;
			case 'RUN':
				await run('/usr/sbin/chroot', inside(['sh', '-ec', text]), {env});
				break;
			case 'WORKDIR':
				folder = text;
				break;
			case 'USER':
				user = text;
				break;
			case 'HEALTHCHECK':
				healthy = JSON.parse(text.replace('CMD ', ''));
				break;
			case 'ENTRYPOINT':
				entry = JSON.parse(text);
				break;
			case 'CMD':
				command = JSON.parse(text);
				break;
			default:
				t.true(['FROM', 'VOLUME', 'EXPOSE'].includes(verb), `${verb} ${text}`);
		}
	}
	// A container has a network of its own: here the port may be in use.
	const port = await freePort();
	env.MAILCTL_HTTP_LISTEN = `127.0.0.1:${port}`;
	const child = spawn('/usr/sbin/chroot', inside([...entry, ...command]), {env, stdio: 'ignore'});
	const ended = once(child, 'exit');
	t.teardown(() => child.kill('SIGKILL'));
	await waitFor('the container to be healthy', () =>
		run('/usr/sbin/chroot', inside(healthy.map(word => word.replace('8125', `${port}`))), {env}).then(
			() => true,
			() => {
				if (child.exitCode !== null) {
					throw new Error(`it ended with ${child.exitCode}`);
				}
				return false;
			},
		),
	);
	t.is((await run('stat', ['-c', '%a %u:%g', path.join(root, 'data/mailctl.db')])).stdout, '600 10001:10001\n');
	const send = ['send', '--from', 'hello@example.com', '--to', 'ada@example.org', '--template', 'sample', '--wait'];
	t.regex((await run('/usr/sbin/chroot', inside([...entry, ...send]), {env})).stdout, /^msg_\w+\n$/);
	child.kill('SIGTERM');
	t.deepEqual(await ended, [0, null]);
});

type Compose = {
	readonly services: Readonly<Record<string, {environment?: Record<string, string>; volumes?: string[]}>>;
	readonly volumes: Readonly<Record<string, null>>;
};

test('the compose files use existing settings and volumes', async t => {
	const settings = await readFile('docs/reference/settings.md', 'utf8');
	for (const name of ['compose.yaml', 'compose.postgres.yaml']) {
		const {services, volumes} = parse(await readFile(`config/docker/${name}`, 'utf8')) as Compose;
		const named = Object.keys(services.mailctl?.environment ?? {});
		t.deepEqual(
			named.filter(setting => !settings.includes(setting)),
			[],
		);
		const used = Object.values(services).flatMap(service => service.volumes ?? []);
		t.deepEqual(
			used.filter(volume => !volume.startsWith('./')).map(volume => volume.split(':')[0]),
			Object.keys(volumes),
		);
	}
});
