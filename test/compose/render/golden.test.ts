import {existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {compileVariant} from '../../../src/compose/render/compile.ts';
import {readTemplateFolder} from '../../../src/compose/render/folder.ts';
import {chooseVariant} from '../../../src/compose/render/locale.ts';
import {createRenderer} from '../../../src/compose/render/render.ts';

// Each case is a template folder, renders.json (for whom) and expected/<name>.{subject,html,txt}; UPDATE_GOLDEN=1
// rewrites those.
const cases = 'test/fixtures/render';

type Render = {name: string; locale: string; timezone: string};

for (const name of readdirSync(cases)) {
	const folder = path.join(cases, name);
	for (const render of JSON.parse(readFileSync(path.join(folder, 'renders.json'), 'utf8')) as Render[]) {
		test(`${name}: ${render.name} renders as expected`, async t => {
			const read = await readTemplateFolder(folder);
			if (!read.ok) {
				return t.fail(JSON.stringify(read.problems));
			}
			t.is(read.name, name);

			const variant = chooseVariant(read.variants, render.locale, null);
			const compiled = variant && (await compileVariant(variant));
			if (!compiled?.ok) {
				return t.fail(JSON.stringify(compiled));
			}

			const result = createRenderer().render(
				{id: name, ...compiled},
				{
					data: read.sample ?? '{}',
					...render,
					recipient: {email: 'ada@reader.example'},
					unsubscribe_url: 'https://mail.example/unsubscribe?token=abc',
					preferences_url: 'https://mail.example/preferences?token=abc',
					workspace: {name: 'Acme & Co'},
					message: {id: 'msg_1', locale: render.locale},
				},
			);
			if (!result.ok) {
				return t.fail(result.message);
			}
			expectFile(path.join(folder, 'expected', `${render.name}.subject`), `${result.subject}\n`);
			expectFile(path.join(folder, 'expected', `${render.name}.html`), result.html);
			expectFile(path.join(folder, 'expected', `${render.name}.txt`), result.text);

			function expectFile(file: string, actual: string): void {
				// ICU's releases differ in which spaces they set.
				const plain = actual.replace(/[\u00a0\u202f]/g, ' ');
				if (process.env.UPDATE_GOLDEN === '1') {
					mkdirSync(path.dirname(file), {recursive: true});
					writeFileSync(file, plain);
				}
				t.true(existsSync(file), `${file} is missing`);
				t.is(plain, readFileSync(file, 'utf8'), file);
			}
		});
	}
}
