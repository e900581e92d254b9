import type {Change} from '../../declared/diff.ts';
import type {Terminal} from '../terminal.ts';
import {printable, wrapped} from '../text.ts';
import type {Step} from './apply.ts';

const signs = {add: ['+', 'good'], change: ['~', 'doubtful'], remove: ['-', 'bad']} as const;

/** `+ topic news  name: Monthly news`, `~ key app  rate_limit: none → 10/60`, `- sender no-reply@shop.example`. */
export function changeLines({workspace, kind, name, action, fields}: Change, {width, tint}: Terminal): string[] {
	const [sign, tone] = signs[action];
	const place = kind === 'workspace' ? '' : ` in ${workspace}`;
	const details = Object.entries(fields).map(([field, {from, to}]) => {
		const before = action === 'add' ? '' : from === to ? 'another password for ' : `${spelled(from)} → `;
		return `${field}: ${before}${spelled(to)}`;
	});
	return [
		tint(`${sign} ${kind} ${printable(name)}${printable(place)}`, tone),
		...details.flatMap(detail => wrapped(printable(detail), width, '    ')),
	];
}

function spelled(value: unknown): string {
	return value === null || value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);
}

/** The keys and secrets that were made, for the one time that they can be shown. */
export function secretLines(steps: readonly Step[], {bold}: Terminal): string[] {
	const secrets = steps.flatMap(({change, made}) => {
		const secret = made?.key ?? made?.signing_secret;
		return secret === undefined
			? []
			: [[`${change.kind} ${printable(change.name)} in ${printable(change.workspace)}`, secret]];
	});
	const keep = secrets.length > 0 ? ['', 'Keep these now: keys are shown only this time.'] : [];
	return [...keep, ...secrets.flatMap(([name = '', secret = '']) => [`  ${name}`, `  ${bold(secret)}`])];
}
