import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {text} from 'node:stream/consumers';
import {pathToFileURL} from 'node:url';
import test from 'ava';
import fc from 'fast-check';
import {createLog} from '../../src/daemon/log.ts';
import {prettyLine} from '../../src/daemon/pretty-line.ts';
import {anyChar} from '../helpers/any-char.ts';

function capture(input: Partial<Parameters<typeof createLog>[0]> = {}) {
	const lines: string[] = [];
	const destination = {
		write(line: string) {
			lines.push(line);
		},
	};
	const log = createLog({level: 'info', format: 'json', hasColors: false, destination, ...input});
	return {...log, lines, records: () => lines.map(line => JSON.parse(line))};
}

test('changes the level at runtime', t => {
	const {logger, setLevel, records} = capture({level: 'warn'});
	logger.info('one');
	setLevel('debug');
	logger.debug('two');
	t.deepEqual(
		records().map(record => [record.level, record.msg]),
		[['debug', 'two']],
	);
});

test('logs the name, message, code and stack of an error, but no other properties', t => {
	const {logger, records} = capture();
	const cause = Object.assign(new Error('inner'), {password: 'hunter2'});
	logger.error({err: Object.assign(new Error('outer', {cause}), {code: 'EIO', sql: 'hunter2'})}, 'failed');
	logger.error({err: 'text'}, 'failed');
	t.like(records()[0], {err: {type: 'Error', message: 'outer', code: 'EIO', cause: {message: 'inner'}}});
	t.like(records()[1], {err: {message: 'text'}});
	t.notRegex(JSON.stringify(records()), /hunter2/);
});

test('pretty lines are aligned, with color only on a terminal', t => {
	const line =
		'{"level":"info","time":"2026-06-09T10:15:30.123Z","event":"sent","recipient":"a@b.example","mx":null,"code":250}';
	t.is(prettyLine(line, false), '10:15:30.123 INFO  sent       a@b.example code=250\n');
	t.is(
		prettyLine(line, true).replaceAll('\u001b', '^'),
		'^[90m10:15:30.123^[0m ^[32mINFO ^[0m ^[1msent      ^[0m a@b.example ^[90mcode=^[0m250\n',
	);
	t.is(
		prettyLine(
			'{"level":"error","time":"2026-06-09T10:15:30.123Z","msg":"failed","err":{"stack":"E: x\\n  at y"}}',
			false,
		),
		'10:15:30.123 ERROR failed\n    E: x\n    at y\n',
	);
	const {logger, lines} = capture({format: 'pretty'});
	logger.warn({event: 'x'}, 'careful');
	t.regex(lines.join(), /^[\d:.]+ WARN {2}x {10}careful\n$/);
});

test('pretty lines never contain control characters or bidi overrides', t => {
	const {logger, lines} = capture({format: 'pretty'});
	fc.assert(
		fc.property(fc.string({unit: anyChar}), fc.anything(), (text, anything) => {
			const before = lines.length;
			logger.info({event: text, reply: `\u001b[2J\u202e${text}`, [text]: anything}, text);
			t.is(lines.length, before + 1);
			t.notRegex(lines[before]?.slice(0, -1) ?? '', /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
			t.is(typeof prettyLine(text, true), 'string');
		}),
	);
});

test('writes every line to standard output, even if the process exits at once', async t => {
	const module = pathToFileURL('dist/src/daemon/log.js');
	const script = `const {createLog} = await import('${module}');
		const {logger} = createLog({level: 'info', format: 'json', colour: false});
		for (let n = 0; n < 5000; n++) logger.info({n});
		process.exit(0);`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const chunks: Buffer[] = [];
	child.stdout.on('data', chunk => chunks.push(chunk));
	await once(child, 'close');
	const lines = Buffer.concat(chunks).toString().trim().split('\n');
	t.is(lines.length, 5000);
	t.is(JSON.parse(lines.at(-1) ?? '').n, 4999);
});

test('buffers at most 16 MiB for a blocked pipe, counts dropped lines and exits without delay', async t => {
	const module = pathToFileURL('dist/src/daemon/log.js');
	const script = `const {createLog} = await import('${module}');
		const {logger, dropped} = createLog({level: 'info', format: 'json', colour: false});
		const text = 'x'.repeat(1000);
		for (let n = 0; n < 30000; n++) logger.info({n, text});
		await new Promise(resolve => setTimeout(resolve, 100));
		process.stderr.write(String(dropped()));
		process.exit(0);`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['ignore', 'pipe', 'pipe']});
	child.stdout.pause();
	const dropped = Number(await text(child.stderr));
	// 16 MiB are some 15,500 of these lines.
	t.true(dropped > 13_000 && dropped < 15_500, String(dropped));
	t.is(child.exitCode ?? (await once(child, 'exit'))[0], 0);
});

test('counts lines as dropped, without throwing, if the pipe is closed', async t => {
	const script = `const {createLog} = await import('${pathToFileURL('dist/src/daemon/log.js')}');
		const {logger, dropped} = createLog({level: 'info', format: 'json', colour: false});
		await new Promise(resolve => process.stdin.once('data', resolve));
		process.stdin.destroy();
		for (let n = 0; n < 100; n++) logger.info({n});
		await new Promise(resolve => setTimeout(resolve, 100));
		process.stderr.write(String(dropped()));`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['pipe', 'pipe', 'pipe']});
	child.stdout.destroy();
	child.stdin.end('go');
	t.is(await text(child.stderr), '100');
});

test('never splits a line for a slow reader', async t => {
	const script = `const {createLog} = await import('${pathToFileURL('dist/src/daemon/log.js')}');
		const {logger} = createLog({level: 'info', format: 'json', colour: false});
		for (let n = 0; n < 2000; n++) {
			logger.info({n, text: 'ä'.repeat(n)});
			if (n % 100 === 0) await new Promise(resolve => setTimeout(resolve, 1));
		}`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const lines = (await text(child.stdout)).trim().split('\n');
	t.deepEqual(
		lines.map(line => JSON.parse(line).n),
		Array.from({length: 2000}, (_, n) => n),
	);
});
