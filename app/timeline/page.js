'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const get = (id) => document.getElementById(id);
  const kinds = ['copy', 'gather', 'compute', 'discard', 'block', 'wait', 'message'];
  const words = {
    copy: 'copy', gather: 'gather', compute: 'compute on the device', discard: 'discard',
    block: 'use of a block', wait: 'wait for a block', message: 'message', counter: 'counter'};
  const BLOCK = 4, WAIT = 5, MESSAGE = 6;
  const spans = data.spans;
  const count = spans.start.length;
  const start = Float64Array.from(spans.start);
  const length = Float64Array.from(spans.length);
  const length_of = data.end || 1;

  const text_of = (id, text) => { get(id).textContent = text; };
  const make = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const time = (ns) => {
    const size = Math.abs(ns);
    if (size >= 1e9) return (ns / 1e9).toFixed(3) + ' s';
    if (size >= 1e6) return (ns / 1e6).toFixed(3) + ' ms';
    return (ns / 1e3).toFixed(size < 1e3 ? 3 : 1) + ' us';
  };
  const size = (bytes) => {
    const units = ['B', 'KiB', 'MiB', 'GiB'];
    let unit = 0;
    for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
    return (unit ? bytes.toFixed(1) : bytes) + ' ' + units[unit];
  };
  const block_name = (block) => data.blocks[block] || 'block ' + block;

  // Lanes: one for each track; the work that a device does for blocks has its own.
  const lanes = [];
  const lane_of = new Map();
  const lane_for = (span) => {
    const track = spans.track[span];
    const kind = spans.kind[span];
    const key = track * 2 + (kind === 2 || kind === 3 ? 1 : 0);
    if (!lane_of.has(key)) lane_of.set(key, {key, track, spans: []});
    return lane_of.get(key);
  };
  for (let i = 0; i < count; ++i) lane_for(i).spans.push(i);
  let rank_shown = -1;
  const ordered = [...lane_of.values()].sort((a, b) => a.key - b.key);
  for (const lane of ordered) {
    const track = data.tracks[lane.track];
    if (track.rank !== rank_shown) {
      rank_shown = track.rank;
      lanes.push({heading: 'rank ' + track.rank});
      for (const counter of data.counters)
        if (counter.rank === track.rank) lanes.push({counter, name: counter.name});
    }
    lane.name = track.name + (lane.key % 2 ? ' (work)' : '');
    lane.start = Float64Array.from(lane.spans, (i) => start[i]);
    // The latest end so far, for finding what reaches into a view.
    let latest = 0;
    lane.reach = Float64Array.from(lane.spans, (i) => latest = Math.max(latest, start[i] + length[i]));
    lanes.push(lane);
  }
  const heights = {heading: 20, counter: 30, spans: 22};
  let bottom = 26;
  for (const lane of lanes) {
    lane.top = bottom;
    lane.height = lane.heading ? heights.heading : lane.counter ? heights.counter : heights.spans;
    bottom += lane.height;
  }

  const canvas = get('lanes');
  const ink = canvas.getContext('2d');
  // Wide enough for the longest name.
  ink.font = '12px system-ui, sans-serif';
  const widest = lanes.reduce((most, lane) => Math.max(most, ink.measureText(lane.heading || lane.name).width), 60);
  const gutter = () => Math.ceil(Math.min(widest + 16, view.width / 2));
  const view = {from: data.view[0], to: Math.max(data.view[1], data.view[0] + 1), width: 0, height: 0, scroll: 0};
  let colours = {};
  let chosen = -1;
  let late_index = -1;
  let pending = false;
  const frame_times = [];

  const read_colours = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of [...kinds, 'counter', 'mark', 'ground', 'raised', 'line', 'text', 'faint', 'chosen'])
      colours[name] = style.getPropertyValue('--' + name).trim();
  };
  const x_of = (at) => gutter() + (at - view.from) / (view.to - view.from) * (view.width - gutter());
  const at_of = (x) => view.from + (x - gutter()) / (view.width - gutter()) * (view.to - view.from);
  const first_after = (sorted, value) => {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle + 1; else high = middle;
    }
    return low;
  };

  const draw_axis = () => {
    const span = view.to - view.from;
    const least = span / Math.max(2, (view.width - gutter()) / 110);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
    ink.fillStyle = colours.raised;
    ink.fillRect(0, 0, view.width, 24);
    ink.fillStyle = colours.faint;
    ink.textBaseline = 'middle';
    ink.font = '11px system-ui, sans-serif';
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = x_of(at);
      ink.fillStyle = colours.line;
      ink.fillRect(x, 0, 1, view.height);
      ink.fillStyle = colours.faint;
      ink.fillText(time(at).replace(/\.?0+ /, ' '), x + 3, 12);
    }
  };
  let columns = new Float64Array(0);
  const stacked = [WAIT, BLOCK, 2, 0, 1, MESSAGE, 3];
  const draw_spans = (lane, top) => {
    const high = lane.height - 4;
    const scale = (view.width - gutter()) / (view.to - view.from);
    const left = gutter();
    let i = first_after(lane.reach, view.from);
    const until = first_after(lane.start, view.to);
    // Of what is narrower than a pixel, each column shows how much of its time went where.
    columns.fill(0);
    let crowded = false;
    for (; i < until; ++i) {
      const span = lane.spans[i];
      const kind = spans.kind[span];
      const exact = left + (start[span] - view.from) * scale;
      const from = Math.max(left, exact);
      const to = Math.min(view.width, exact + length[span] * scale);
      if (to < left) continue;
      if (length[span] * scale < 1) {
        columns[Math.min(Math.floor(view.width) - 1, Math.floor(from)) * kinds.length + kind] += to - from + 1e-9;
        crowded = true;
        continue;
      }
      const wide = to - from;
      ink.fillStyle = colours[kinds[kind]];
      ink.fillRect(from, top + 2, wide > 3 ? wide - 0.5 : wide, high);
      if (wide > 46) {
        const block = spans.block[span];
        const label = kind === BLOCK && block >= 0 ? block_name(block) : data.names[spans.name[span]] + (block >= 0 ? ' ' + block : '');
        ink.save();
        ink.beginPath();
        ink.rect(from, top, wide - 4, lane.height);
        ink.clip();
        ink.fillStyle = colours.ground;
        ink.fillText(label, from + 4, top + lane.height / 2);
        ink.restore();
      }
    }
    if (crowded) draw_columns(top + 2, high);
  };
  const draw_columns = (top, high) => {
    for (let x = gutter(); x < view.width; ++x) {
      let bottom_of = top + high;
      for (const kind of stacked) {
        const share = Math.min(1, columns[x * kinds.length + kind]);
        if (share === 0) continue;
        const part = Math.min(Math.max(1, share * high), bottom_of - top);
        ink.fillStyle = colours[kinds[kind]];
        ink.fillRect(x, bottom_of - part, 1, part);
        bottom_of -= part;
      }
    }
  };
  const draw_counter = (lane, top) => {
    const {at, value} = lane.counter;
    const most = lane.most || (lane.most = value.reduce((a, b) => Math.max(a, b), 1));
    const high = lane.height - 6;
    ink.fillStyle = colours.counter;
    ink.globalAlpha = 0.55;
    ink.beginPath();
    ink.moveTo(gutter(), top + 3 + high);
    let drawn = -1;
    for (let i = Math.max(0, first_after(at, view.from) - 1); i < at.length; ++i) {
      const x = Math.max(gutter(), x_of(at[i]));
      const next = i + 1 < at.length ? Math.min(view.width, x_of(at[i + 1])) : view.width;
      if (x > view.width) break;
      if (next - drawn < 0.5) continue;
      const y = top + 3 + high * (1 - value[i] / most);
      if (drawn < 0) ink.lineTo(x, top + 3 + high);
      ink.lineTo(x, y);
      ink.lineTo(next, y);
      drawn = next;
    }
    ink.lineTo(Math.max(gutter(), drawn), top + 3 + high);
    ink.fill();
    ink.globalAlpha = 1;
  };
  const draw_late = () => {
    ink.fillStyle = colours.wait;
    let drawn = -9;
    const first = first_after(late_at, view.from) - 1;
    for (let i = Math.max(0, first); i < data.late.length; ++i) {
      const x = x_of(data.late[i].at);
      if (x > view.width) break;
      if (x < gutter() || x - drawn < 3) continue;
      drawn = x;
      ink.beginPath();
      ink.moveTo(x - 4, 24);
      ink.lineTo(x + 4, 24);
      ink.lineTo(x, 31);
      ink.fill();
    }
  };
  const draw_chosen = () => {
    if (chosen < 0) return;
    const ticket = spans.ticket[chosen];
    const rank = data.tracks[spans.track[chosen]].rank;
    const linked = [];
    ink.strokeStyle = colours.chosen;
    for (const lane of lanes) {
      if (!lane.spans || data.tracks[lane.track].rank !== rank) continue;
      const top = lane.top - view.scroll;
      const until = first_after(lane.start, view.to);
      for (let i = first_after(lane.reach, view.from); i < until; ++i) {
        const span = lane.spans[i];
        if (span !== chosen && (ticket === 0 || spans.ticket[span] !== ticket)) continue;
        const from = Math.max(gutter(), x_of(start[span]));
        const wide = Math.max(2, x_of(start[span] + length[span]) - from);
        ink.lineWidth = span === chosen ? 2 : 1;
        ink.strokeRect(from, top + 2, wide, lane.height - 4);
        if (spans.kind[span] !== WAIT) linked.push([start[span], from, top + lane.height / 2]);
      }
    }
    linked.sort((a, b) => a[0] - b[0]);
    ink.lineWidth = 1;
    ink.setLineDash([4, 3]);
    ink.beginPath();
    linked.forEach(([, x, y], i) => (i ? ink.lineTo(x, y) : ink.moveTo(x, y)));
    ink.stroke();
    ink.setLineDash([]);
  };
  const draw = () => {
    pending = false;
    const began = performance.now();
    const scale = window.devicePixelRatio || 1;
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.fillStyle = colours.ground;
    ink.fillRect(0, 0, view.width, view.height);
    draw_axis();
    ink.fillStyle = colours.mark;
    // Where steps are narrow their borders would hide everything.
    const marks = data.marks.filter((mark) => mark.at >= view.from && mark.at <= view.to);
    if (marks.length * 12 < view.width)
      for (const mark of marks) ink.fillRect(x_of(mark.at), 24, 1, view.height);
    ink.save();
    ink.beginPath();
    ink.rect(0, 24, view.width, view.height - 24);
    ink.clip();
    for (const lane of lanes) {
      const top = lane.top - view.scroll;
      if (top + lane.height < 24 || top > view.height) continue;
      if (lane.heading) {
        ink.fillStyle = colours.raised;
        ink.fillRect(0, top, view.width, lane.height);
      } else if (lane.counter) {
        draw_counter(lane, top);
      } else {
        draw_spans(lane, top);
      }
    }
    draw_chosen();
    for (const lane of lanes) {
      const top = lane.top - view.scroll;
      if (!lane.heading) {
        ink.fillStyle = colours.ground;
        ink.fillRect(0, top, gutter(), lane.height);
        ink.fillStyle = colours.line;
        ink.fillRect(0, top + lane.height - 1, view.width, 1);
      }
      ink.save();
      ink.beginPath();
      ink.rect(0, top, gutter() - 4, lane.height);
      ink.clip();
      ink.fillStyle = lane.heading ? colours.text : colours.faint;
      ink.font = (lane.heading ? '600 ' : '') + '12px system-ui, sans-serif';
      ink.fillText(lane.heading || lane.name, 8, top + lane.height / 2);
      ink.restore();
    }
    ink.restore();
    ink.fillStyle = colours.raised;
    ink.fillRect(0, 0, gutter(), 24);
    draw_late();
    frame_times.push(performance.now() - began);
  };
  const ask = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(draw);
  };
  const show = (from, to) => {
    const least = 100;
    const wide = Math.min(Math.max(to - from, least), length_of * 1.02);
    view.from = Math.min(Math.max(from, -0.01 * length_of), length_of * 1.01 - wide);
    view.to = view.from + wide;
    ask();
  };
  const zoom = (factor, about) => {
    const at = about === undefined ? (view.from + view.to) / 2 : about;
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  };
  const pan = (part) => {
    const by = (view.to - view.from) * part;
    show(view.from + by, view.to + by);
  };
  const scroll = (by) => {
    view.scroll = Math.min(Math.max(0, view.scroll + by), Math.max(0, bottom - view.height));
    ask();
  };
  const fit = () => {
    view.width = canvas.clientWidth;
    view.height = Math.min(bottom + 4, Math.max(220, Math.round(window.innerHeight * 0.62)));
    canvas.style.height = view.height + 'px';
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(view.width * scale);
    canvas.height = Math.round(view.height * scale);
    columns = new Float64Array(Math.ceil(view.width) * kinds.length);
    scroll(0);
  };

  const facts = (span) => {
    const kind = kinds[spans.kind[span]];
    const block = spans.block[span];
    const since = spans.since[span];
    const track = data.tracks[spans.track[span]];
    const lines = [data.names[spans.name[span]] + (block >= 0 ? ': ' + block_name(block) : ''),
      words[kind] + ' on ' + track.name + ', rank ' + track.rank,
      'from ' + time(start[span]) + ' for ' + time(length[span])];
    if (spans.bytes[span])
      lines.push(size(spans.bytes[span]) + (length[span] ? ', ' + size(Math.round(spans.bytes[span] / length[span] * 1e9)) + '/s' : ''));
    if (since >= 0 && kind !== 'wait')
      lines.push({message: 'sent ', block: 'asked for '}[kind] === undefined
        ? 'enqueued ' + time(start[span] - since) + ' before'
        : {message: 'sent ', block: 'asked for '}[kind] + time(start[span] - since) + ' before');
    if (spans.ticket[span]) lines.push('ticket ' + spans.ticket[span]);
    const late = late_by_span.get(span);
    if (late) lines.push(late.cause.replaceAll('_', ' ') + ': ' + late.why, late.advice);
    return lines.join('\n');
  };
  const span_at = (x, y) => {
    if (x < gutter()) return -1;
    const lane = lanes.find((each) => each.spans && y >= each.top - view.scroll && y < each.top - view.scroll + each.height);
    if (!lane) return -1;
    const at = at_of(x);
    const slack = (view.to - view.from) / (view.width - gutter()) * 3;
    let best = -1;
    const until = first_after(lane.start, at + slack);
    for (let i = first_after(lane.reach, at - slack); i < until; ++i) {
      const span = lane.spans[i];
      if (start[span] + length[span] < at - slack) continue;
      if (best < 0 || length[span] <= length[best] || (spans.kind[span] === WAIT && spans.kind[best] !== WAIT)) best = span;
    }
    return best;
  };
  const choose = (span) => {
    chosen = span;
    text_of('facts', span < 0 ? 'Select a span to see its facts.' : facts(span));
    ask();
  };

  // Late blocks.
  const late_at = Float64Array.from(data.late, (each) => each.at);
  const late_by_span = new Map(data.late.map((each) => [each.span, each]));
  const page = 200;
  let cause_shown = '';
  let shown = 0;
  const go_to = (index) => {
    const late = data.late[index];
    late_index = index;
    const around = Math.max(late.wait, 1000) * 6;
    show(late.at - around / 3, late.at + around * 2 / 3);
    const lane = late.span >= 0 ? lanes.find((each) => each.spans && each.track === spans.track[late.span]) : undefined;
    if (lane && (lane.top < view.scroll + 24 || lane.top + lane.height > view.scroll + view.height)) scroll(lane.top - view.scroll - 60);
    choose(late.span);
    for (const each of get('late').querySelectorAll('button'))
      each.setAttribute('aria-current', String(Number(each.dataset.index) === index));
  };
  const list_more = () => {
    const list = get('late');
    let added = 0;
    for (; shown < data.late.length && added < page; ++shown) {
      const late = data.late[shown];
      if (cause_shown && late.cause !== cause_shown) continue;
      ++added;
      const button = make('button');
      const index = shown;
      button.type = 'button';
      button.dataset.index = index;
      button.append(make('strong', block_name(late.block)), ' waited ' + time(late.wait) + (data.ranks > 1 ? ', rank ' + late.rank : ''),
        make('span', 'at ' + time(late.at) + ', ' + late.cause.replaceAll('_', ' ') + ': ' + late.why), make('span', late.advice));
      button.addEventListener('click', () => go_to(index));
      const item = make('li');
      item.append(button);
      list.append(item);
    }
    get('more').hidden = !data.late.slice(shown).some((each) => !cause_shown || each.cause === cause_shown);
  };
  const list_late = () => {
    get('late').replaceChildren();
    shown = 0;
    list_more();
    if (!data.late.length) get('late').append(make('li', 'No block was late.'));
  };
  const list_causes = () => {
    const sums = new Map();
    for (const late of data.late) {
      const sum = sums.get(late.cause) || {count: 0, wait: 0};
      ++sum.count;
      sum.wait += late.wait;
      sums.set(late.cause, sum);
    }
    for (const [cause, sum] of [...sums].sort((a, b) => b[1].wait - a[1].wait)) {
      const button = make('button', cause.replaceAll('_', ' '));
      button.type = 'button';
      button.setAttribute('aria-pressed', 'false');
      button.addEventListener('click', () => {
        cause_shown = cause_shown === cause ? '' : cause;
        for (const each of get('causes').querySelectorAll('button'))
          each.setAttribute('aria-pressed', String(each === button && cause_shown !== ''));
        list_late();
      });
      const row = make('tr');
      const head = make('td');
      head.append(button);
      row.append(head, make('td', sum.count), make('td', time(sum.wait)));
      get('causes').tBodies[0].append(row);
    }
    get('causes').hidden = !data.late.length;
  };
  const step_late = (by) => {
    const all = data.late.map((_, i) => i).filter((i) => !cause_shown || data.late[i].cause === cause_shown);
    if (!all.length) return;
    const here = all.indexOf(late_index);
    go_to(all[here < 0 ? (by > 0 ? 0 : all.length - 1) : (here + by + all.length) % all.length]);
  };

  // Mouse, touch, keys.
  const pointers = new Map();
  let moved = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const [x] = place(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(event.deltaY / 400), at_of(x));
  }, {passive: false});
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    moved = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    const tip = get('tip');
    if (!before) {
      const span = span_at(...now);
      tip.hidden = span < 0;
      if (span < 0) return;
      tip.textContent = facts(span);
      tip.style.left = Math.max(0, Math.min(now[0] + 14, view.width - tip.offsetWidth - 4)) + 'px';
      tip.style.top = Math.max(0, Math.min(now[1] + 14, view.height - tip.offsetHeight - 4)) + 'px';
      return;
    }
    tip.hidden = true;
    const wide = view.width - gutter();
    if (pointers.size === 1) {
      pan((before[0] - now[0]) / wide);
      scroll(before[1] - now[1]);
    } else {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const was = Math.abs(before[0] - other[0]), is = Math.abs(now[0] - other[0]);
      if (was > 8 && is > 8) zoom(was / is, at_of((now[0] + other[0]) / 2));
    }
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    pointers.set(event.pointerId, now);
  });
  const lift = (event) => {
    if (pointers.delete(event.pointerId) && event.type === 'pointerup' && moved < 4) choose(span_at(...place(event)));
  };
  canvas.addEventListener('pointerup', lift);
  canvas.addEventListener('pointercancel', lift);
  canvas.addEventListener('pointerleave', () => { get('tip').hidden = true; });
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => scroll(-40), ArrowDown: () => scroll(40),
    '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), '0': () => show(0, length_of), Home: () => show(0, length_of),
    n: () => step_late(1), p: () => step_late(-1), Escape: () => choose(-1)};
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  get('in').addEventListener('click', keys['+']);
  get('out').addEventListener('click', keys['-']);
  get('all').addEventListener('click', keys['0']);
  get('next').addEventListener('click', keys.n);
  get('previous').addEventListener('click', keys.p);
  get('next').disabled = get('previous').disabled = !data.late.length;
  get('more').addEventListener('click', list_more);

  text_of('notes', data.notes);
  for (const [name, value] of data.summary) {
    const pair = make('div');
    pair.append(make('dt', name), make('dd', value));
    get('summary').append(pair);
  }
  for (const kind of [...kinds, 'counter']) {
    const item = make('li');
    const patch = make('i');
    patch.style.background = 'var(--' + kind + ')';
    item.append(patch, words[kind]);
    get('legend').append(item);
  }
  list_causes();
  list_late();
  read_colours();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { read_colours(); ask(); });
  new ResizeObserver(fit).observe(get('stage'));
  fit();

  // For tests, and for whoever writes a script.
  document.documentElement.dataset.view = Math.round(view.from) + ' to ' + Math.round(view.to);
  ink.font = '12px system-ui, sans-serif';
  document.documentElement.dataset.cut = lanes.filter((each) => ink.measureText(each.heading || each.name).width > gutter() - 12).length;
  const tracks = lanes.filter((each) => each.spans);
  window.timeline = {lanes: tracks.map((each) => each.name), tops: tracks.map((each) => each.top), spans: count, show, choose, go_to, draw, view, gutter, x_of, frame_times};
  document.documentElement.dataset.lanes = window.timeline.lanes.join(', ');
  document.documentElement.dataset.spans = count;
})();
