import {keyAlgorithms} from '../../domains/record-words.ts';
import {cancelRotation, rotateKeys} from '../../domains/signing-keys.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type DkimKey, type Domain, keyState} from '../../store/domains.ts';
import {act, badge, code, nothing, section, type Tone, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import type {DomainPage} from './domain.ts';

const tones: Readonly<Record<ReturnType<typeof keyState>, Tone>> = {active: 'good', pending: 'busy', retired: 'idle'};

/** The keys that sign mail from a domain, and their rotation. */
export function keysSection({may, now}: Visit, domain: Domain, keys: readonly DkimKey[]): Html {
	const isRotating = keys.some(key => keyState(key) === 'pending');
	const to = `/domains/${domain.id}/keys`;
	const rotation = isRotating
		? act({to: `${to}/cancel`, label: 'Cancel the rotation', look: 'quiet'})
		: act({to: `${to}/rotate`, label: 'Rotate the keys', look: 'quiet'});
	const shown = table<DkimKey>({
		label: 'Signing keys',
		columns: [
			{title: 'Selector', cell: ({selector}) => code(selector)},
			{title: 'Algorithm', cell: ({algorithm}) => keyAlgorithms[algorithm]},
			{title: 'State', cell: key => badge(keyState(key), tones[keyState(key)])},
			{title: 'Made', cell: key => time(key.created_at, now), right: true},
		],
		rows: keys,
		empty: html`<p>This domain has no keys.</p>`,
	});
	const words = isRotating
		? 'The new keys sign once every DNS server that is asked shows their records. Until then the old ones sign.'
		: 'A rotation makes new keys. They sign once DNS shows their records, so no mail fails meanwhile.';
	return section('Signing keys', html`<p class="soft">${words}</p>${shown}`, may('admin') ? rotation : nothing);
}

export function keyPages({change, vault, domains}: DashboardParts, {show, about}: DomainPage): readonly Route[] {
	async function rotate(visit: Visit, domain: Domain): Promise<Answer> {
		const keys = await domains.makeKeys(domain.workspace_id);
		const input = {domain, keys, selector: null};
		const rotation = await change(trx => rotateKeys(trx, visit.tools, vault, input));
		return rotation.kind === 'begun'
			? go(`/domains/${domain.id}`, 'New keys are made. Publish their records below.')
			: await show(visit, domain, 'New keys wait for DNS already: publish their records, or cancel the rotation.');
	}

	async function cancel(visit: Visit, domain: Domain): Promise<Answer> {
		const cancelled = await change(trx => cancelRotation(trx, visit.tools, domain));
		return cancelled.length > 0
			? go(`/domains/${domain.id}`, `The new keys (${cancelled.join(', ')}) are forgotten.`)
			: await show(visit, domain, 'No new keys wait for DNS.');
	}

	return [
		{method: 'POST', path: '/domains/:id/keys/rotate', role: 'admin', fresh: true, answer: about(rotate)},
		{method: 'POST', path: '/domains/:id/keys/cancel', role: 'admin', fresh: true, answer: about(cancel)},
	];
}
