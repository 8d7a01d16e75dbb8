'use strict';
// Goes into a copy of a timeline page, behind its own script. The part of the address behind # says
// what is done; what did not hold is in `data-failed` of the root, and `data-checked` counts.
(() => {
  const page = window.timeline;
  const {view} = page;
  const get = (id) => document.getElementById(id);
  const canvas = get('lanes');
  const root = document.documentElement;
  const failed = [];
  let checked = 0;
  const check = (name, holds) => {
    ++checked;
    if (!holds) failed.push(name);
  };
  const near = (a, b, by = (view.to - view.from) / 1000) => Math.abs(a - b) <= by;
  const width = () => view.to - view.from;
  const at_of = (x) => view.from + (x - page.gutter()) / (view.width - page.gutter()) * width();
  const initially = [view.from, view.to];
  const restart = () => page.show(...initially);

  canvas.setPointerCapture = () => {}; // There is no pointer to capture.
  const point = (type, x, y, id = 1) => {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent(type, {pointerId: id, clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true}));
  };
  const wheel = (x, how) => {
    const box = canvas.getBoundingClientRect();
    const event = new WheelEvent('wheel', {clientX: box.left + x, clientY: box.top + 40, bubbles: true, cancelable: true, ...how});
    canvas.dispatchEvent(event);
    return event;
  };
  const press = (key, how = {}) => {
    const event = new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true, ...how});
    canvas.dispatchEvent(event);
    return event;
  };
  const middle = () => page.gutter() + (view.width - page.gutter()) / 2;
  const lane_y = (index) => page.tops[index] + 11;
  const pixel = (x, y) => {
    const scale = window.devicePixelRatio || 1;
    return [...canvas.getContext('2d').getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1).data].slice(0, 3).join();
  };
  const colour = (name) => {
    const probe = document.createElement('i');
    probe.style.color = getComputedStyle(root).getPropertyValue('--' + name).trim();
    document.body.append(probe);
    const found = getComputedStyle(probe).color.match(/\d+/g).join();
    probe.remove();
    return found;
  };

  const groups = {
    pointer() {
      const x = page.gutter() + (view.width - page.gutter()) / 4;
      const under = at_of(x);
      const before = width();
      const turned = wheel(x, {deltaY: -200});
      check('the wheel zooms in', width() < before * 0.7);
      check('the wheel zooms about the pointer', near(at_of(x), under));
      check('the wheel does not scroll the page', turned.defaultPrevented);
      wheel(x, {deltaY: 200});
      check('the wheel zooms out again', near(width(), before));
      wheel(x, {deltaY: -400});
      const [from, wide] = [view.from, width()];
      wheel(x, {deltaY: 100, shiftKey: true});
      check('the wheel pans with shift', near(view.from, from + wide / 10) && near(width(), wide));
      wheel(x, {deltaX: -100});
      check('the wheel pans sideways', near(view.from, from));

      const held = at_of(x);
      const y = lane_y(1); // Over the first copy.
      point('pointerdown', x, y);
      point('pointermove', x - 50, y);
      point('pointerup', x - 50, y);
      check('what is dragged stays under the pointer', near(at_of(x - 50), held));
      check('dragging selects nothing', get('facts').textContent.startsWith('Select a span'));
      point('pointermove', x - 50, y);
      check('although there is something', !get('tip').hidden);

      restart();
      point('pointerdown', middle() - 20, 60, 1);
      point('pointerdown', middle() + 20, 60, 2);
      point('pointermove', middle() + 60, 60, 2);
      check('two fingers zoom', near(width(), (initially[1] - initially[0]) / 2));
      point('pointercancel', middle(), 60, 1);
      point('pointercancel', middle(), 60, 2);
      restart();
      point('pointermove', middle() + 90, 60);
      check('a finger that is gone drags nothing', near(view.from, initially[0]));
    },
    keys() {
      const [from, wide] = [view.from, width()];
      press('+');
      check('plus zooms in', near(width(), wide * 0.6));
      press('ArrowRight');
      check('right goes right', near(view.from, from + wide * 0.2 + wide * 0.6 * 0.15));
      press('ArrowLeft');
      check('left goes back', near(view.from, from + wide * 0.2));
      press('-');
      check('minus zooms out', near(width(), wide));
      press('=');
      check('so does plus without shift zoom in', near(width(), wide * 0.6));
      press('0');
      check('0 shows the whole run', view.from <= 0 && view.to >= 7e6);
      press('+');
      press('Home');
      check('so does Home', view.from <= 0 && view.to >= 7e6);
      get('in').click();
      check('a button zooms in', near(width(), 7e6 * 0.6));
      get('out').click();
      check('a button zooms out', near(width(), 7e6));
      get('in').click();
      get('all').click();
      check('a button shows the whole run', near(width(), 7e6));
      press('n');
      check('n goes to the first late block', get('facts').textContent.includes('demanded late'));
      press('n');
      check('n goes on', get('facts').textContent.includes('link busy'));
      press('p');
      check('p goes back', get('facts').textContent.includes('demanded late'));
      get('previous').click();
      check('a button goes to the last behind the first', get('facts').textContent.includes('link busy'));
      get('next').click();
      check('a button goes on', get('facts').textContent.includes('demanded late'));
      press('Escape');
      check('Escape selects nothing', get('facts').textContent.startsWith('Select a span'));
      const before = view.from;
      check('keys of the browser are left to it', !press('0', {ctrlKey: true}).defaultPrevented && view.from === before);
      check('and keys that mean nothing here', !press('x').defaultPrevented);
    },
    hover() {
      const tip = get('tip');
      const copy = page.x_of(1e6); // In the copy of the first block, from 0 to 3 ms.
      point('pointermove', copy, lane_y(1));
      check('a tip shows', !tip.hidden);
      check('it has the facts of the span', ['fetch: transformer.blocks.0', 'copy on copy, rank 0', 'for 3.000 ms', 'ticket 1'].every((each) => tip.textContent.includes(each)));
      check('it is in the lanes', tip.offsetLeft >= 0 && tip.offsetLeft + tip.offsetWidth <= view.width);
      point('pointermove', page.x_of(5e6), lane_y(0));
      check('a wait shows its cause and what helps', ['link busy: the link was busy', 'resident: 2 more blocks'].every((each) => tip.textContent.includes(each)));
      point('pointermove', page.x_of(6.9e6), lane_y(1));
      check('where there is nothing, no tip', tip.hidden);
      point('pointermove', copy, lane_y(1));
      point('pointerleave', 0, 0);
      check('no tip outside', tip.hidden);
      point('pointermove', page.gutter() - 5, lane_y(1));
      check('no tip over the names', tip.hidden);

      point('pointerdown', copy, lane_y(1));
      point('pointerup', copy, lane_y(1));
      check('a click keeps the facts', get('facts').textContent.startsWith('fetch: transformer.blocks.0'));
      page.draw();
      check('what is chosen is outlined', pixel(copy, page.tops[1] + 2) === colour('chosen'));
    },
    late() {
      const listed = () => [...get('late').querySelectorAll('button')];
      const causes = [...get('causes').querySelectorAll('button')];
      check('all late blocks are listed', listed().length === 2);
      listed()[1].click();
      check('a click goes there', view.from < 4e6 && view.to > 6e6 && width() <= 12e6);
      check('and shows why', get('facts').textContent.includes('link busy: the link was busy'));
      check('and what would help', get('facts').textContent.includes('resident: 2 more blocks'));
      check('and marks it in the list', listed().map((each) => each.getAttribute('aria-current')).join() === 'false,true');
      check('causes stand with the longest wait first', causes.map((each) => each.textContent).join() === 'demanded late,link busy');
      causes[1].click();
      check('a cause lists its own', listed().length === 1 && listed()[0].textContent.includes('link busy'));
      check('a cause that is chosen says so', causes.map((each) => each.getAttribute('aria-pressed')).join() === 'false,true');
      press('Escape');
      press('n');
      check('and is what n goes through', get('facts').textContent.includes('link busy'));
      causes[1].click();
      check('all are listed again', listed().length === 2);
      page.show(0, 7e6);
      press('Escape');
      page.draw();
      check('late blocks are marked above the lanes', pixel(page.x_of(4e6), 26) === colour('wait'));
      check('a wait is drawn in its colour', pixel(page.x_of(5e6), lane_y(0) + 6) === colour('wait'));
    },
    colours() {
      page.draw();
      check('the ground is that of the scheme', pixel(page.x_of(6.9e6), lane_y(1)) === colour('ground'));
      check('so is a copy', pixel(page.x_of(1e6), lane_y(1) + 7) === colour('copy'));
      root.dataset.ground = colour('ground');
      root.style.setProperty('--ground', 'rgb(1, 2, 3)');
      window.scheme_changed();
      page.draw();
      check('another scheme is drawn at once', pixel(page.x_of(6.9e6), lane_y(1)) === '1,2,3');
    },
    many() {
      check('all spans are there', page.spans >= 200000);
      const list = get('late');
      check('the first late blocks are listed', list.children.length === 200 && !get('more').hidden);
      get('more').click();
      check('and more of them when asked for', list.children.length === 400);
      press('ArrowDown');
      check('down scrolls', view.scroll === 40);
      press('ArrowUp');
      check('up scrolls back', view.scroll === 0);

      press('0');
      page.frame_times.length = 0;
      for (let i = 0; i < 10; ++i) {
        wheel(middle(), {deltaY: -250});
        page.draw();
        wheel(middle(), {deltaX: 60});
        page.draw();
        point('pointermove', middle() + i, lane_y(1));
      }
      const times = [...page.frame_times].sort((a, b) => a - b);
      root.dataset.frame = times.at(-1).toFixed(1);
      check('something is drawn', times.length === 20);
      check('no frame takes a quarter of a second', times.at(-1) < 250);
    }
  };
  try {
    groups[location.hash.slice(1)]();
  } catch (error) {
    failed.push(String(error));
  }
  root.dataset.checked = checked;
  root.dataset.failed = failed.join('; ');
})();
