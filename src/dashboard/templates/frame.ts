import {previewVariant} from '../../admin/templates.ts';
import {createTurns} from '../../api/turns.ts';
import {renderInWorker} from '../../render/in-worker.ts';
import {mailContent, textContent} from '../mail-frame.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {chosenTemplate, chosenVariant, chosenVersion, noTemplate} from './chosen.ts';

/** A saved version as a mail, for a frame. */
export function templateFramePages({reader}: DashboardParts): readonly Route[] {
	const turns = createTurns();

	async function frame(visit: Visit): Promise<Answer> {
		const {query, workspace} = visit;
		const template = await chosenTemplate(reader, visit);
		const saved = template && (await chosenVersion(reader, template, query.get('version')));
		const variant = saved && chosenVariant(saved.variants, query.get('locale'));
		if (!saved || !variant) {
			return noTemplate;
		}
		const rendered = await previewVariant(saved.version, variant, {
			workspace,
			data: null,
			locale: variant.locale,
			timezone: null,
			render: job => turns(workspace.id, () => renderInWorker(job)),
		});
		if (!rendered.ok) {
			return textContent(`The template fails at ${rendered.message}. Edit it, or its sample.`);
		}
		return query.get('part') === 'text'
			? textContent(rendered.text)
			: mailContent(rendered.html, query.get('images') === '1');
	}

	return [{method: 'GET', path: '/templates/:id/frame', role: 'viewer', answer: frame}];
}
