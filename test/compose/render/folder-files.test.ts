import {mkdir, readFile, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import type {VariantSource} from '../../../src/compose/render/compile.ts';
import {folderFiles, readTemplateFolder} from '../../../src/compose/render/folder.ts';
import {priorities} from '../../../src/mail/message.ts';
import {temporaryFolder} from '../../helpers/databases.ts';

const text = fc.string({unit: 'grapheme', maxLength: 40}).map(one => one.replace(/^\ufeff+/, ''));
const source = fc.record({
	subject: text,
	body: fc.oneof(fc.record({mjml: text}), fc.record({html: text})),
	text: fc.option(text, {nil: undefined}),
});
const locales = fc.uniqueArray(
	fc.constantFrom(null, 'de', 'de-AT', 'en', 'zh-Hant-TW', 'sr-Latn', 'en-u-ca-buddhist'),
	{
		minLength: 1,
	},
);
const variants = locales.chain(tags =>
	fc.tuple(...tags.map(() => source)).map(sources =>
		sources.map(({subject, body, text: plain}, index): VariantSource => {
			const locale = tags[index] ?? null;
			return {locale, subject, ...body, ...(plain !== undefined && {text: plain})};
		}),
	),
);
const id = fc.option(fc.stringMatching(/^tpl_[\w-]{1,64}$/), {nil: null});
const settings = fc.record({
	topic: fc.option(fc.stringMatching(/^[\w-]{1,64}$/), {nil: null}),
	priority: fc.option(fc.constantFrom(...priorities), {nil: null}),
	sensitive: fc.uniqueArray(fc.stringMatching(/^[A-Za-z_][\w-]{0,9}(\.[A-Za-z_]{1,9}){0,3}$/), {maxLength: 5}),
});

const layout = fc.option(fc.stringMatching(/^[\w-]{1,64}$/), {nil: null});
const sample = fc.option(
	fc.dictionary(text, fc.jsonValue()).map(data => JSON.stringify(data, undefined, 2)),
	{nil: null},
);

test('reads back the variants written to a folder', async t => {
	const parent = await temporaryFolder(t);
	let count = 0;
	await fc.assert(
		fc.asyncProperty(id, layout, settings, variants, sample, async (id, layout, settings, written, json) => {
			const folder = path.join(parent, String(count++));
			await mkdir(folder);
			for (const [name, content] of folderFiles({id, layout, settings, variants: written, sample: json})) {
				await writeFile(path.join(folder, name), content);
			}
			const byLocale = written.toSorted((a, b) => ((a.locale ?? '') < (b.locale ?? '') ? -1 : 1));
			t.deepEqual(await readTemplateFolder(folder), {
				ok: true,
				name: path.basename(folder),
				id,
				settings,
				layout,
				variants: byLocale,
				sample: json,
			});
		}),
		{numRuns: 100},
	);
});

test('writes the sample template exactly as shipped', async t => {
	const folder = 'config/sample-template';
	const read = await readTemplateFolder(folder);
	if (!read.ok) {
		t.fail();
		return;
	}
	const files = folderFiles(read);
	t.deepEqual([...files.keys()].toSorted(), ['body.de.mjml', 'body.mjml', 'sample.json', 'template.json']);
	for (const [name, content] of files) {
		t.is(content, await readFile(path.join(folder, name), 'utf8'), name);
	}
});
