import type {WorkspaceInput} from '../../admin/workspaces.ts';
import {canonicalLocale, createFormats} from '../../api/schemas/formats.ts';
import {type Html, html} from '../../hosted/html.ts';
import {labelFault} from '../../kit/text.ts';
import {parseDuration} from '../../kit/time.ts';
import {readBranding, validAccent, validLogoUrl} from '../../mail/branding.ts';
import type {Workspace} from '../../store/workspaces.ts';
import {act, input, nothing} from '../markup.ts';
import type {Visit} from '../route.ts';

// The form of a workspace's settings: what it shows and how it is read.

const mostQuota = 2_000_000_000;
const formats = createFormats();

type Read = {readonly ok: true; readonly input: Partial<WorkspaceInput>} | {readonly ok: false; readonly fault: string};

/** An empty field takes a setting back. */
export function readSettings(form: URLSearchParams): Read {
	const text = (field: string) => form.get(field)?.trim() ?? '';
	const orNull = (field: string) => (text(field) === '' ? null : text(field));
	const [quota, lifetime, logo, colour, support] = ['quota', 'lifetime', 'logo', 'colour', 'support'].map(text) as [
		string,
		string,
		string,
		string,
		string,
	];
	const checks: ReadonlyArray<readonly [string, string | null]> = [
		['name', labelFault(text('name'))],
		['language', formats['locale-or-empty'](text('locale'))],
		['time zone', formats['timezone-or-empty'](text('timezone'))],
		[
			'quota',
			quota === '' || (/^\d+$/.test(quota) && Number(quota) <= mostQuota)
				? null
				: 'must be a whole number, or empty for none',
		],
		[
			'queue lifetime',
			lifetime === '' || (parseDuration(lifetime) ?? 0) > 0 ? null : 'must be a duration such as 4d, 36h or 90m',
		],
		['name for recipients', text('brand') === '' ? null : labelFault(text('brand'))],
		['logo', logo === '' || validLogoUrl(logo) !== null ? null : 'must be an https URL with a full domain name'],
		['colour', colour === '' || validAccent(colour) !== null ? null : 'must be written as #2f5bd7'],
		['support address', support === '' ? null : formats.email(support)],
	];
	const wrong = checks.find(([, fault]) => fault !== null);
	if (wrong) {
		return {ok: false, fault: `The ${wrong[0]} ${wrong[1]}.`};
	}
	const lifetimeMs = lifetime === '' ? null : (parseDuration(lifetime) ?? null);
	return {
		ok: true,
		input: {
			name: text('name'),
			locale: text('locale') === '' ? null : canonicalLocale(text('locale')),
			timezone: orNull('timezone'),
			...(form.has('quota') && {monthlyQuota: quota === '' ? null : Number(quota)}),
			queueLifetime: lifetimeMs === null ? null : Math.ceil(lifetimeMs / 1000),
			trackOpens: form.has('opens'),
			trackClicks: form.has('clicks'),
			branding: {
				name: orNull('brand'),
				logoUrl: validLogoUrl(logo),
				accent: validAccent(colour),
				supportEmail: orNull('support'),
			},
		},
	};
}

/**
 * What users of one workspace may not set, a sentence for them; null: nothing of it. The quota and how long the queue is used are the
 * installation's. `longest`: milliseconds.
 */
export function foreignSetting(
	{monthly_quota: quota, queue_lifetime_s: lifetime}: Workspace,
	{monthlyQuota, queueLifetime}: Partial<WorkspaceInput>,
	longest: number,
): string | null {
	if (monthlyQuota !== undefined && monthlyQuota !== quota) {
		return 'The quota is the installation’s: only users of all workspaces change it.';
	}
	return queueLifetime != null && queueLifetime !== lifetime && queueLifetime * 1000 > longest
		? `The queue lifetime is at most that of the installation (${longest / 1000}s): only users of all workspaces set a longer one.`
		: null;
}

/** With what was typed before something was wrong with it. */
export function settingsForm(workspace: Workspace, {form, everywhere}: Pick<Visit, 'form' | 'everywhere'>): Html {
	const brand = readBranding(workspace.branding);
	const isRepeated = form.has('name');
	const field = (
		name: string,
		label: string,
		stored: string | number | null,
		more: {hint?: string; placeholder?: string} = {},
	) => input({name, label, value: isRepeated ? (form.get(name) ?? '') : String(stored ?? ''), ...more});
	const box = (name: string, label: string, stored: string | null) =>
		html`<label class="field check"><input type="checkbox" name="${name}"${(isRepeated ? form.has(name) : stored !== null) ? html` checked` : nothing}><span>${label}</span></label>`;
	const lifetime = workspace.queue_lifetime_s === null ? null : `${workspace.queue_lifetime_s}s`;
	const fields = html`<div class="grid">
${field('name', 'Name', workspace.name)}
${everywhere ? field('quota', 'Messages a month', workspace.monthly_quota, {hint: 'Empty: no limit'}) : nothing}
${field('lifetime', 'Queue lifetime', lifetime, {placeholder: '4d', hint: 'How long delivery is tried'})}
${field('locale', 'Language', workspace.locale, {placeholder: 'en', hint: 'Where neither send nor contact has one'})}
${field('timezone', 'Time zone', workspace.timezone, {placeholder: 'Europe/Vienna'})}
${field('brand', 'Name for recipients', brand.name, {hint: 'On the unsubscribe page'})}
${field('logo', 'Logo', brand.logoUrl, {placeholder: 'https://shop.example/logo.png'})}
${field('colour', 'Colour', brand.accent, {placeholder: '#2f5bd7'})}
${field('support', 'Support address', brand.supportEmail, {placeholder: 'help@shop.example'})}
</div><div class="actions">${box('opens', 'Record opens', workspace.track_opens_at)}${box('clicks', 'Record clicks', workspace.track_clicks_at)}</div>`;
	return html`<div class="card stack">${act({to: `/workspaces/${workspace.id}`, label: 'Save', fields})}</div>`;
}
