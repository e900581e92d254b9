import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {comparePages} from './compare.ts';
import {editPages} from './edit.ts';
import {templateFramePages} from './frame.ts';
import {templateListPages} from './list.ts';
import {oneTemplatePages} from './one.ts';
import {testSendPages} from './test-send.ts';

export function templatePages(parts: DashboardParts): readonly Route[] {
	return [templateListPages, oneTemplatePages, templateFramePages, comparePages, editPages, testSendPages].flatMap(
		group => group(parts),
	);
}
