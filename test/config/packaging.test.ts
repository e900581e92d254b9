import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync, statSync} from 'node:fs';
import process from 'node:process';
import test from 'ava';
import {parse} from 'dotenv';
import {loadSettings} from '../../src/config/settings.ts';
import {allocator} from '../../src/kit/memory.ts';

const dockerfile = readFileSync('Dockerfile', 'utf8');
const unit = readFileSync('config/mailctl.service', 'utf8');
const {scripts} = JSON.parse(readFileSync('package.json', 'utf8')) as {scripts: {start: string}};
const settingsOf = (env: Record<string, string>) => loadSettings({env, cwd: '/nonexistent', hostname: 'box', cpus: 1});

test('the image build gets what npm ci and tsc need, and nothing that the image must not contain', t => {
	const lines = readFileSync('.dockerignore', 'utf8').trim().split('\n');
	t.is(lines[0], '*');
	for (const line of lines.slice(1)) {
		t.true(line.startsWith('!') && existsSync(line.slice(1)), line);
	}

	const seen = new Set(lines.map(line => line.slice(1)));
	for (const needed of ['bin', 'config', 'src', 'migrations', 'package.json', 'package-lock.json', 'tsconfig.json']) {
		t.true(seen.has(needed), needed);
	}

	t.regex(dockerfile, /^COPY --from=pack \/opt\/mailctl \/opt\/mailctl$/m);
});

test('the image runs the program with valid settings and as an unprivileged user', t => {
	const {bin} = JSON.parse(readFileSync('package.json', 'utf8')) as {bin: Record<string, string>};
	const [program = ''] = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)?.[1] ?? '[]');
	t.true(existsSync(bin[program] ?? ''), program);
	const env = parse((/^ENV (.*)$/m.exec(dockerfile)?.[1] ?? '').replaceAll(' ', '\n'));
	t.like(settingsOf(env), {ok: true, settings: {dataDir: '/data', httpListen: {host: '0.0.0.0', port: 8125}}});
	t.regex(dockerfile, /^USER 10001:10001$/m);
	t.regex(dockerfile, /^VOLUME \/data$/m);
	t.regex(dockerfile, /^EXPOSE 8125$/m);
});

test('the systemd unit starts the program with valid settings', t => {
	const [, path = ''] =
		/^ExecStart=\/usr\/bin\/env node -- \/opt\/mailctl\/(\S+) --env-file \S+ serve$/m.exec(unit) ?? [];
	t.true(existsSync(path), path);
	t.regex(unit, /^StateDirectory=mailctl$/m);
	const stop = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
	const settings = settingsOf({});
	t.true(settings.ok && stop * 1000 > settings.settings.drainLimit);
	for (const [, file = ''] of unit.matchAll(/\/opt\/mailctl\/(\S+\.(?:service|md))/g)) {
		t.true(existsSync(file), file);
	}
});

const maxMegabytes = 30;

// Large buffers between small ones that stay: by default, glibc retains the freed memory in between once it has freed a
// larger one.
const leavesHoles = `
	const block = bytes => Buffer.allocUnsafeSlow(bytes).fill(1);
	block(20_000_000);
	gc();
	const before = process.memoryUsage.rss();
	const kept = [];
	let large = Array.from({length: 10}, () => [block(9_000_000), kept.push(block(100_000))]);
	large = null;
	// Another thread frees them, on a busy machine after some time, so this checks repeatedly for a while.
	const look = times => {
		gc();
		const grown = (process.memoryUsage.rss() - before) / 1e6;
		if (grown < ${maxMegabytes} || times === 0) console.log(grown);
		else setTimeout(look, 50, times - 1);
	};
	look(200);
`;

for (const [name, file] of [
	['image', dockerfile],
	['unit', unit],
	['start script', scripts.start],
	['command', readFileSync('bin/mailctl.js', 'utf8')],
] as const) {
	test(`the ${name} runs the program so that freed large buffers return to the system`, t => {
		const env = Object.fromEntries(
			[...file.matchAll(/\b(MALLOC_\w+)=(\d+)/g)].map(([, key, value]) => [key, value]),
		);
		t.deepEqual(env, allocator);
		const grown = execFileSync(process.execPath, ['--expose-gc', '-e', leavesHoles], {env, encoding: 'utf8'});
		t.true(Number(grown) < maxMegabytes, `${grown} MB of 90 MB`);
	});
}

test('the CI script is executable and runs the expected steps', t => {
	t.is(statSync('.ci/run').mode & 0o111, 0o111);
	const steps = [...readFileSync('.ci/run', 'utf8').matchAll(/^(?:took|stage \S+) (npm [\w: ]*\w)/gm)].map(
		([, step]) => step,
	);
	t.deepEqual(steps, ['npm ci', 'npm test', 'npm run test:slow']);
});
