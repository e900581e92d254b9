import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import test from 'ava';
import {loadSettings} from '../../src/config/settings.ts';

const folder = 'test/fixtures/bad-config';

// Each folder holds an environment file and its expected problems, which UPDATE_GOLDEN=1 rewrites.
for (const name of readdirSync(folder)) {
	test(`bad config: ${name}`, t => {
		const loaded = loadSettings({
			env: {},
			envFile: `${folder}/${name}/env`,
			cwd: process.cwd(),
			hostname: 'mail.example.com',
			cpus: 2,
		});
		const text = `${loaded.ok ? 'no problem' : loaded.problems.join('\n')}\n`
			.replaceAll(process.cwd(), '<here>')
			// Only owners may read a file with a secret, but the mode that git gave the fixture does not matter here.
			.replace(/.*holds a password or key.*\n/, '');
		const expected = `${folder}/${name}/expected.txt`;
		if (process.env.UPDATE_GOLDEN) {
			writeFileSync(expected, text);
		}

		t.is(text, readFileSync(expected, 'utf8'));
		t.notRegex(text, /hunter|no problem/);
	});
}
