import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {comparePages} from './compare.ts';
import {templateFramePages} from './frame.ts';
import {templateListPages} from './list.ts';
import {oneTemplatePages} from './one.ts';

export function templatePages(parts: DashboardParts): readonly Route[] {
	return [templateListPages, oneTemplatePages, templateFramePages, comparePages].flatMap(group => group(parts));
}
