import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Program, Welcome} from './daemon.ts';

/** Another workspace that is ready to send; `options` are those of `workspace create`. */
export async function addShop(program: Program, name = 'other', options: readonly string[] = []): Promise<Welcome> {
	const folder = join(program.folder, 'templates/note');
	mkdirSync(folder, {recursive: true});
	writeFileSync(join(folder, 'template.json'), '{"subject":"A note"}');
	writeFileSync(join(folder, 'body.html'), '<p>Hello</p>');
	const of = ['--workspace', name];
	await program.cli('workspace', 'create', '--name', name, ...options);
	const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'app', ...of);
	const from = `hello@${name}.example`;
	await program.cli('sender', 'add', from, '--verified', ...of);
	const [template] = await program.cli<Array<{id: string}>>('template', 'push', 'templates', ...of);
	return {key, from, templateId: template?.id ?? ''};
}
