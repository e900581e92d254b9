import {readdirSync, readFileSync} from 'node:fs';
import test from 'ava';
import {parse} from 'dotenv';
import {loadSettings} from '../../src/config/settings.ts';
import {exampleFile, settingKeys, settingsPage, table} from '../../src/config/table.ts';
import {nearest} from '../../src/kit/text.ts';

test('docs/reference/settings.md and config/mailctl.env.example match the code', t => {
	t.is(readFileSync('docs/reference/settings.md', 'utf8'), settingsPage());
	t.is(readFileSync('config/mailctl.env.example', 'utf8'), exampleFile());
});

test('the example lists every setting and, uncommented, equals the defaults', t => {
	const uncommented = parse(exampleFile().replaceAll('#MAILCTL_', 'MAILCTL_'));
	t.deepEqual(
		Object.keys(uncommented),
		settingKeys.map(key => table[key].name),
	);
	const input = {cwd: '/nonexistent', hostname: 'mail.example.com', cpus: 2};
	t.like(loadSettings({env: uncommented, ...input}), {
		settings: (loadSettings({env: {}, ...input}) as {settings: object}).settings,
	});
});

test('only src/config reads the environment', t => {
	const files = readdirSync('src', {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));
	t.true(files.length > 10);
	t.deepEqual(
		files.filter(
			file =>
				/process\.env\b|\bdotenv\b/.test(readFileSync(`src/${file}`, 'utf8')) && !file.startsWith('config/'),
		),
		[],
	);
});

test('suggests a setting for a misspelled name, but not for an unrelated word', t => {
	const names = settingKeys.map(key => table[key].name);
	t.is(nearest('MAILCTL_RETRY_SHEDULE', names), 'MAILCTL_RETRY_SCHEDULE');
	t.is(nearest('MAILCTL_FROBNICATE', names), undefined);
	t.is(nearest('MAILCTL_', names), undefined);
});
