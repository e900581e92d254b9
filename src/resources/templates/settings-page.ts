import {act, input, section, select} from '../../dashboard/markup.ts';
import type {Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {priorities} from '../../mail/message.ts';
import type {InputOf} from '../operation.ts';
import type {Topic} from '../topics/store.ts';
import type {updateTemplate} from './rules.ts';
import type {Template} from './store.ts';

/** What holds for all versions of a template, to be changed. */
export function settingsForm({id, topic, priority, sensitive}: Template, topics: readonly Topic[]): Html {
	const fields = html`<div class="grid">${select(
		{name: 'topic', label: 'Topic of sends that name none', value: topic ?? ''},
		[{value: '', label: 'none'}, ...topics.map(({code, name}) => ({value: code, label: `${name} (${code})`}))],
	)}${select({name: 'priority', label: 'Priority', value: priority ?? ''}, [
		{value: '', label: 'normal'},
		...priorities.filter(value => value !== 'normal').map(value => ({value, label: value})),
	])}${input({
		name: 'sensitive',
		label: 'Variables that are not kept',
		value: sensitive.join(', '),
		placeholder: 'code, link',
		hint: 'Sealed until the last attempt has ended, then removed',
	})}</div>`;
	return section(
		'Settings',
		html`<div class="card stack">${act({to: `/templates/${id}/update`, label: 'Save', fields})}</div>`,
	);
}

export function settingsIn({form, params: {id = ''}}: Visit): InputOf<typeof updateTemplate.input> {
	const text = (name: string) => form.get(name)?.trim() || null;
	const names = (text('sensitive') ?? '').split(/[\s,]+/).filter(name => name !== '');
	return {
		id,
		topic: text('topic'),
		priority: priorities.find(one => one === text('priority')) ?? null,
		sensitive: names,
	};
}
